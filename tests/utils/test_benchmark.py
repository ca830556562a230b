"""Timers and comparisons: what is measured is not asserted, only how it is reported."""

import pytest

import ember as torch
from ember.utils.benchmark import (
    Colorize,
    Compare,
    Measurement,
    TaskSpec,
    Timer,
    select_unit,
    trim_sigfig,
)

TASK = TaskSpec("x + 1", "pass", label="L", sub_label="S", description="D")


def test_figures_of_a_measurement():
    found = Measurement(10, [0.01, 0.02, 0.03, 0.04, 0.05], TASK)
    assert found.times == pytest.approx([0.001, 0.002, 0.003, 0.004, 0.005])
    assert found.median == pytest.approx(0.003) and found.mean == pytest.approx(0.003)
    assert found.iqr == pytest.approx(0.002) and not found.meets_confidence()
    assert found.has_warnings and found.significant_figures == 1
    assert (found.title, found.as_row_name, found.num_threads) == ("L: S", "S", 1)
    lines = repr(found).splitlines()
    assert lines[1:6] == [
        "L: S",
        "D",
        "  Median: 3.00 ms",
        "  IQR:    2.00 ms (2.00 to 4.00)",
        "  5 measurements, 10 runs per measurement, 1 thread",
    ]
    assert lines[6] == "  WARNING: Interquartile range is 66.7% of the median measurement."
    single = repr(Measurement(100, [0.00054], TASK)).splitlines()
    assert single[3:] == ["  5.40 us", "  1 measurement, 100 runs , 1 thread"]


def test_units_and_digits():
    assert [select_unit(t)[0] for t in (2e-8, 2e-5, 2e-2, 2.0)] == ["ns", "us", "ms", "s"]
    assert trim_sigfig(123.4, 2) == 120.0 and trim_sigfig(0, 3) == 0.0
    assert trim_sigfig(0.0456, 1) == pytest.approx(0.05)


def test_measurements_of_one_task_are_merged():
    other = TASK._replace(sub_label="T")
    merged = Measurement.merge(
        [Measurement(2, [2.0], TASK), Measurement(1, [3.0], other), Measurement(1, [4.0], TASK)]
    )
    assert [(m.task_spec.sub_label, m.times) for m in merged] == [("S", [1.0, 4.0]), ("T", [3.0])]


def test_timers_run_the_statement():
    seen = []
    found = Timer("seen.append(x + 1)", "x = torch.ones(1)", globals={"seen": seen}).timeit(5)
    assert found.number_per_run == 5 and len(found.raw_times) == 1 and len(seen) == 7
    assert seen[0].item() == 2.0
    blocks = []
    timer = Timer("pass")
    timer._timeit = lambda number: 0.1 * number
    found = timer.blocked_autorange(
        lambda number, time: blocks.append((number, time)), min_run_time=0.35
    )
    assert len(blocks) == len(found.raw_times) == 4 and blocks[0] == (1, pytest.approx(0.1))
    assert timer.adaptive_autorange(min_run_time=0.3).iqr == pytest.approx(0)


def test_threads_are_put_back():
    before = torch.get_num_threads()
    seen = []
    Timer("seen.append(torch.get_num_threads())", globals={"seen": seen}, num_threads=3).timeit(1)
    assert set(seen) == {3} and torch.get_num_threads() == before


TABLE = """\
[---------- L ----------]
           |    D  |    E
1 threads: --------------
      S    |    2  |  1.5
      S 2  |  2.5  |
2 threads: --------------
      S    |       |    4

Times are in milliseconds (ms).
"""


def test_comparisons():
    tasks = [
        (TASK, 0.002),
        (TASK._replace(description="E"), 0.0015),
        (TASK._replace(sub_label="S 2"), 0.0025),
        (TASK._replace(description="E", num_threads=2), 0.004),
    ]
    compared = Compare([Measurement(1, [time], task) for task, time in tasks])
    found = [line.rstrip() for line in str(compared).split("\n")]
    assert found == TABLE.split("\n")
    compared.colorize()
    assert "\033[92m" in str(compared) and compared._colorize is Colorize.COLUMNWISE
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        compared.extend_results([1])


def test_what_is_not_there_says_so():
    for call in (Timer().repeat, Timer().autorange, Timer().collect_callgrind):
        with pytest.raises(NotImplementedError, match="blocked_autorange"):
            call()
    with pytest.raises(NotImplementedError, match="C\\+\\+"):
        Timer("x", language="c++")
    with pytest.raises(AttributeError, match=r"torch\.randn"):
        torch.utils.benchmark.Fuzzer
    with pytest.raises(AttributeError, match="profiler"):
        torch.utils.bottleneck

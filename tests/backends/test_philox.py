"""GPU random numbers: known answers of Philox4x32-10, and numbers of elements."""

import numpy as np
import pytest

from ember.backends.cpu.philox import STATE_BYTES, Philox, philox

# counter, key, words: from the known-answer file of Random123, the paper's own library
KNOWN = [
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]
DISTRIBUTIONS = {
    "uniform": (2.0, 5.0),
    "normal": (1.0, 3.0),
    "exponential": (0.5,),
    "geometric": (0.25,),
    "log_normal": (0.1, 0.4),
    "cauchy": (0.0, 1.0),
    "bernoulli": (0.3,),
    "integers": (-3, 11),
    "integers_of_type": (),
}


def filled(source, distribution, parameters, dtype, size):
    out = np.zeros(size, dtype)
    getattr(source, distribution)(out, *parameters)
    return out


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(counter, key, words):
    vectors = tuple(np.array([c, 0], np.uint64) for c in counter)
    assert " ".join(f"{w:08x}" for w in philox(vectors, key)[0]) == words


def test_counter_layout():
    """The offset's quarter is the counter's low half, the block its high half, the seed the key."""
    source = Philox((5 << 32) + 7)
    source.offset = (3 << 34) + 8
    words = source.bits32(8)
    vectors = tuple(np.array([c], np.uint64) for c in (2, 3, 1, 0))
    assert words[4:].tolist() == philox(vectors, (7, 5))[0].tolist()
    assert source.offset == (3 << 34) + 12


def test_first_numbers():
    """These are part of the interface: saved runs repeat them."""
    uniform = filled(Philox(3), "uniform", (0.0, 1.0), np.float32, 4)
    assert uniform.tolist() == [
        0.06368201971054077,
        0.9073456525802612,
        0.9489189386367798,
        0.8990474343299866,
    ]
    normal = filled(Philox(3), "normal", (0.0, 1.0), np.float32, 4)
    assert normal.tolist() == pytest.approx(
        [2.0089376, 0.849663496, 2.03218699, -0.675592482], rel=1e-6
    )
    double = filled(Philox(3), "normal", (0.0, 1.0), np.float64, 4)
    assert double.tolist() == pytest.approx(
        [-1.3354739940010456, -0.07944087735908854, 0.8965696771471037, 0.7635728294421348],
        rel=1e-12,
    )
    assert Philox(3).permutation(10).tolist() == [9, 6, 4, 2, 8, 1, 7, 0, 5, 3]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_element_has_its_own_number(distribution, dtype):
    """A prefix of a longer fill is the shorter fill; layout does not matter either."""
    parameters = DISTRIBUTIONS[distribution]
    whole = filled(Philox(9), distribution, parameters, dtype, 20000)
    for size in (1, 2, 3, 15, 16, 17, 999):
        part = filled(Philox(9), distribution, parameters, dtype, size)
        assert part.tolist() == whole[:size].tolist()
    columns = np.zeros((200, 100), dtype).T
    getattr(Philox(9), distribution)(columns, *parameters)
    assert columns.reshape(-1).tolist() == whole.tolist()


def test_each_fill_moves_on():
    source = Philox(1)
    fills = [filled(source, "uniform", (0.0, 1.0), np.float32, 8).tolist() for _ in range(3)]
    assert source.offset == 12
    assert len({tuple(f) for f in fills}) == 3
    source.offset = 4
    assert filled(source, "uniform", (0.0, 1.0), np.float32, 8).tolist() == fills[1]


def test_moments():
    """Means and variances within five standard errors for 100000 numbers."""
    expected = {
        "uniform": (3.5, 0.75),
        "normal": (1.0, 9.0),
        "exponential": (2.0, 4.0),
        "geometric": (4.0, 12.0),
        "bernoulli": (0.3, 0.21),
        "integers": (2.0, 10.0),
    }
    for distribution, (mean, variance) in expected.items():
        for dtype in (np.float32, np.float64):
            out = filled(Philox(4), distribution, DISTRIBUTIONS[distribution], dtype, 100_000)
            assert abs(out.mean(dtype=np.float64) - mean) < 5 * (variance / 1e5) ** 0.5
            assert out.var(dtype=np.float64) == pytest.approx(variance, rel=0.05)


def test_normals_are_normal():
    out = np.sort(filled(Philox(4), "normal", (0.0, 1.0), np.float32, 100_000))
    quantiles = [0.001, 0.023, 0.159, 0.5, 0.841, 0.977, 0.999]
    found = [float(out[int(q * len(out))]) for q in quantiles]
    assert found == pytest.approx([-3.09, -1.995, -0.9986, 0, 0.9986, 1.995, 3.09], abs=0.06)


def test_permutation():
    for count in (0, 1, 2, 5, 1000):
        found = Philox(2).permutation(count)
        assert sorted(found.tolist()) == list(range(count))
        assert found.dtype == np.int64
    places = [Philox(seed).permutation(3).tolist() for seed in range(600)]
    counts = {tuple(p): 0 for p in places}
    for p in places:
        counts[tuple(p)] += 1
    assert len(counts) == 6
    assert min(counts.values()) > 60  # 100 expected, deviation 9


def test_rejection_per_element():
    """Samplers that draw unevenly often have counters of their own for each element."""
    rates = np.array([3.0, 50.0, 0.5, 9.0] * 500)
    one, two = np.zeros(2000), np.zeros(7)
    first, second = Philox(8), Philox(8)
    first.poisson(one, rates)
    second.poisson(two, rates[:7])
    assert one[:7].tolist() == two.tolist()
    assert first.offset == second.offset
    for k, rate in enumerate((3.0, 50.0, 0.5, 9.0)):
        drawn = one[k::4]
        assert abs(drawn.mean() - rate) < 5 * (rate / 500) ** 0.5
    gammas = np.zeros(2000)
    first.standard_gamma(gammas, np.full(2000, 2.5))
    assert abs(gammas.mean() - 2.5) < 5 * (2.5 / 2000) ** 0.5
    binomials = np.zeros(2000)
    first.binomial(binomials, np.full(2000, 40.0), np.full(2000, 0.7))
    assert abs(binomials.mean() - 28) < 5 * (8.4 / 2000) ** 0.5


def test_many_draws_for_one_element():
    """More uniforms than are drawn ahead come from the counters that follow."""
    drawn = []

    def sample(uniforms, i):
        numbers = [uniforms() for _ in range(40)]
        drawn.append(numbers)
        return sum(numbers)

    Philox(8).each(sample, 3)
    assert len({n for numbers in drawn for n in numbers}) == 120
    assert all(0 <= n < 1 for numbers in drawn for n in numbers)


def test_state():
    source = Philox(0xFFFFFFFFFFFFFFFF)
    source.bits32(5)
    state = source.state()
    assert state.shape == (STATE_BYTES,)
    assert state.view(np.uint64).tolist() == [0xFFFFFFFFFFFFFFFF, 4]
    other = Philox(0)
    other.set_state(state)
    assert (other.initial, other.offset) == (0xFFFFFFFFFFFFFFFF, 4)
    assert other.bits32(7).tolist() == source.bits32(7).tolist()
    other.set_state(state[:8])
    assert other.offset == 0
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        other.set_state(state[:-1])
    bad = state.copy()
    bad[8] = 3
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        other.set_state(bad)
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        other.offset = 2
    assert other.offset == 0


def test_numbers_hold_all_state():
    """The buffer is the state: what is written there is where the stream continues."""
    source = Philox(5)
    before = source.numbers.copy()
    first = source.bits32(4).tolist()
    source.numbers[:] = before
    assert source.bits32(4).tolist() == first

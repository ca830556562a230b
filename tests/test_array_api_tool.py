"""tools/array_api.py: the table that it makes of pytest's report."""

import importlib.util
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent / "tools" / "array_api.py"
REPORT = """<testsuites><testsuite>
<testcase classname="array_api_tests.test_sorting_functions" name="test_sort"/>
<testcase classname="array_api_tests.test_sorting_functions" name="test_argsort[int8]">
<failure message="AssertionError: out=1&#10;more">trace</failure></testcase>
<testcase classname="array_api_tests.test_linalg.TestInner" name="test_qr">
<skipped message="no"/></testcase>
<testcase classname="array_api_tests.test_linalg" name="test_eigh"><error/></testcase>
</testsuite></testsuites>"""
TABLE = """| tests | passed | failed | skipped |
| --- | --- | --- | --- |
| test_linalg | 0 | 1 | 1 |
| test_sorting_functions | 1 | 1 | 0 |
| all | 1 | 2 | 1 |

Passed of those that ran: 33.3 %

- `test_sorting_functions::test_argsort[int8]`: AssertionError: out=1
- `test_linalg::test_eigh`: """


def loaded():
    spec = importlib.util.spec_from_file_location("array_api_tool", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def test_the_table_counts_and_lists(tmp_path):
    tool = loaded()
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert tool.table(*tool.outcomes(report)) == TABLE
    report.write_text("<testsuites/>")
    assert "Passed of those that ran: none" in tool.table(*tool.outcomes(report))


def test_a_folder_without_the_suite_is_refused(tmp_path):
    made = subprocess.run(
        [sys.executable, str(TOOL), str(tmp_path)], capture_output=True, text=True
    )
    assert made.returncode == 2 and "not a checkout of the suite" in made.stderr


def test_the_suite_is_told_what_to_test(tmp_path, monkeypatch):
    tool = loaded()
    seen = []
    monkeypatch.setattr(tool.subprocess, "run", lambda command, **options: seen.append(options))
    monkeypatch.delenv("ARRAY_API_TESTS_SKIP_DTYPES", raising=False)
    tool.run_suite(tmp_path, 5, True, [], tmp_path / "report.xml")
    monkeypatch.setenv("ARRAY_API_TESTS_SKIP_DTYPES", "uint64")
    tool.run_suite(tmp_path, 5, False, [], tmp_path / "report.xml")
    first, second = (options["env"] for options in seen)
    assert first["ARRAY_API_TESTS_SKIP_DTYPES"] == "uint16,uint32,uint64"
    assert second["ARRAY_API_TESTS_SKIP_DTYPES"] == "uint64"
    assert first["ARRAY_API_TESTS_MODULE"] == "array_api_compat.torch"
    assert str(TOOL.parent.parent) in second["PYTHONPATH"]

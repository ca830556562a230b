"""Runs the Python array API test-suite on Ember and prints a table of what passes.

    python tools/array_api.py CHECKOUT [--examples 30] [--pytorch] [arguments of pytest]

CHECKOUT is a checkout of https://github.com/data-apis/array-api-tests with its submodules. Needed
besides: the suite's requirements and array_api_compat, whose `array_api_compat.torch` is the
namespace under test. It imports torch, which `ember run` lets mean Ember; with `--pytorch` it is
PyTorch, for a comparison. The exit status is 1 when a test fails.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

OUTCOMES = ("passed", "failed", "skipped")
SKIPPED_DTYPES = "uint16,uint32,uint64"  # of which torch has only storage and conversions


def run_suite(checkout: Path, examples: int, pytorch: bool, more: list[str], report: Path) -> None:
    """Run pytest in the checkout, with its report as JUnit XML."""
    start = [sys.executable] if pytorch else [sys.executable, "-m", "ember", "run"]
    command = [*start, "-m", "pytest", "array_api_tests", "-q", "-p", "no:cacheprovider"]
    command += ["--max-examples", str(examples), f"--junitxml={report}", *more]
    environment = {"ARRAY_API_TESTS_SKIP_DTYPES": SKIPPED_DTYPES, **os.environ}
    environment["ARRAY_API_TESTS_MODULE"] = "array_api_compat.torch"
    if not pytorch:
        root = str(Path(__file__).resolve().parent.parent)
        paths = [root, *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    subprocess.run(command, cwd=checkout, env=environment, check=False)


def outcomes(report: Path) -> tuple[dict[str, Counter[str]], list[tuple[str, str]]]:
    """Counts for each file of tests, and the failed tests with the first line of why."""
    counts: dict[str, Counter[str]] = {}
    failed = []
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.get("classname", "").removeprefix("array_api_tests.").split(".")[0]
        bad = [part for part in case if part.tag in ("failure", "error")]
        kind = "failed" if bad else "skipped" if case.find("skipped") is not None else "passed"
        counts.setdefault(module, Counter())[kind] += 1
        if bad:
            why = (bad[0].get("message") or "").strip().splitlines()
            failed.append((f"{module}::{case.get('name')}", why[0] if why else ""))
    return counts, failed


def table(counts: dict[str, Counter[str]], failed: list[tuple[str, str]]) -> str:
    """The counts and the failed tests as Markdown, with the part that passes of those that ran."""
    lines = ["| tests | passed | failed | skipped |", "| --- | --- | --- | --- |"]
    total: Counter[str] = Counter()
    for module, of_module in sorted(counts.items()):
        total.update(of_module)
        lines.append(f"| {module} | " + " | ".join(str(of_module[o]) for o in OUTCOMES) + " |")
    lines.append("| all | " + " | ".join(str(total[o]) for o in OUTCOMES) + " |")
    ran = total["passed"] + total["failed"]
    share = f"{100 * total['passed'] / ran:.1f} %" if ran else "none"
    lines += ["", f"Passed of those that ran: {share}", ""]
    lines += [f"- `{name}`: {why}" for name, why in failed]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="The array API test-suite on Ember. Other arguments go to pytest."
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--examples", type=int, default=30)
    parser.add_argument("--pytorch", action="store_true", help="test PyTorch instead")
    asked, more = parser.parse_known_args()
    if not (asked.checkout / "array_api_tests").is_dir():
        parser.error(f"{asked.checkout} has no folder array_api_tests: not a checkout of the suite")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        run_suite(asked.checkout, asked.examples, asked.pytorch, more, report)
        if not report.exists():
            print("pytest wrote no report: see its output above", file=sys.stderr)
            return 2
        counts, failed = outcomes(report)
    print(table(counts, failed))
    return 1 if failed or not counts else 0


if __name__ == "__main__":
    sys.exit(main())

"""A pytest plugin: count skipped tests by reason, and say how to get a missing tool.

With ``SIGNALBOX_NO_SKIPS=1`` a skipped test fails. On a laptop, a test that needs a missing tool is skipped; the gate
must not skip, because it would pass what it has not tested.
"""

import os
from collections import Counter
from collections.abc import Generator, Iterator

import pytest

from tests.required_programs import TOOLS

ENFORCED = os.environ.get("SIGNALBOX_NO_SKIPS") == "1"


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    if ENFORCED and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"Nothing may be skipped here. {reason}"
        report.outcome = "failed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one."""
    report = yield
    _fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a module that skips itself while it is collected into an error."""
    report = yield
    _fail(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each missing tool, and for each other reason of a skip."""
    skipped = terminalreporter.stats.get("skipped", [])
    lines = list(lines_of([str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)]))
    if lines:
        terminalreporter.write_sep("=", "skipped")
    for line in lines:
        terminalreporter.write_line(line)


def lines_of(reasons: list[str]) -> Iterator[str]:
    """Iterate over the summary's lines: how many tests were skipped for each reason, and how to get a missing tool."""
    how_to_get = {tool.reason: f". {tool.how_to_get_it}" for tool in TOOLS}
    for reason, count in Counter(reason.removeprefix("Skipped: ") for reason in reasons).items():
        yield f"{count} {'test' if count == 1 else 'tests'} skipped: {reason}{how_to_get.get(reason, '')}"

"""A pytest plugin: with ``SIGNALBOX_NO_SKIPS=1`` a skipped test is a failed one.

A test that skips for want of an emulator is a courtesy on a laptop and a hole in a gate.
"""

import os
from collections.abc import Generator

import pytest

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

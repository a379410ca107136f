"""Warnings about tasks that read the machine's clock, which `Harness.travel` does not move."""

import warnings
from collections.abc import Callable
from typing import Any

from signalbox.flows.api.warnings import clock_reads


class ClockWarning(UserWarning):
    """A task reads the machine's clock after the harness has travelled."""


def warn_of_clocks(task: Callable[..., Any]) -> None:
    """Warn about each visible call in a task's code, and in the functions of the same module that it calls."""
    for finding in clock_reads(task):
        warnings.warn_explicit(finding.reason, ClockWarning, finding.file, finding.line)

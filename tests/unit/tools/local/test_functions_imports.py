"""The process of the functions imports what a first answer needs: imports are most of the time until that answer."""

import subprocess
import sys

import pytest

LATER = ("aiohttp", "google.cloud.tasks_v2")
"""Packages that only later requests need, or other processes of the stack."""


@pytest.mark.slow
def test_functions_are_served_without_the_packages_that_a_first_answer_does_not_need() -> None:
    code = f"""
import sys
import signalbox_tools.local.functions.server
print([name for name in {LATER} if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"

"""The processes of a stack import only what a first answer needs: imports are most of the time until that answer."""

import subprocess
import sys

import pytest

LATER = {
    "signalbox_tools.local.functions.server": (
        "aiohttp",
        "google.cloud.firestore_v1",
        "google.cloud.tasks_v2",
        "httpx",
        "rich",
    ),
    "signalbox_tools.local.serving": ("aiohttp", "flask", "google.api_core", "grpc", "gunicorn", "httpx"),
    "signalbox_tools.local.scheduler": ("aiohttp", "flask", "google.api_core", "grpc", "httpx", "rich", "yaml"),
    "signalbox_tools.local.event_bridge.deliver": ("flask", "google.api_core", "grpc", "httpx", "rich", "yaml"),
}
"""Modules of the stack, and packages that only later requests need, or other processes of the stack."""


@pytest.mark.slow
@pytest.mark.parametrize("module", LATER)
def test_a_process_of_the_stack_starts_without_the_packages_that_a_first_answer_does_not_need(module: str) -> None:
    code = f"""
import sys
import {module}
print([name for name in {LATER[module]} if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"

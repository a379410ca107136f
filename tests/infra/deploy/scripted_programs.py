"""Simulated programs: a `Run` that answers from a table, and records the calls.

If the table has a list for a command, its items are the answers to consecutive calls. A command that is not in the
table ends like a program that is not on the PATH.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from signalbox_tools.deploy.programs import NOT_FOUND, Outcome
from tests.infra.deploy import gcloud

CREATES_ONE = '{"resource_changes": [{"address": "a.b", "change": {"actions": ["create"]}}]}'


class Script:
    """Answers by how a command begins; the longest match wins. None means a refusal, text success."""

    def __init__(self, **changes: Any) -> None:
        asked = {
            f"gcloud {begin}": json.dumps(answer) if answer == [] else _text(answer)
            for begin, answer in gcloud.answers().items()
        }
        terraform = {
            "terraform version": '{"terraform_version": "1.11.4"}',
            "terraform init": "",
            "terraform plan": "",
            "terraform show": CREATES_ONE,
            "terraform apply": "Apply complete!",
            "terraform output": "{}",
        }
        self.answers = asked | terraform | {name: _text(answer) for name, answer in changes.items()}
        self.asked: list[str] = []
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str], **_: object) -> Outcome:
        text = " ".join(command)
        self.asked.append(text)
        self.commands.append(command)
        known = max((begin for begin in self.answers if text.startswith(begin)), key=len, default=None)
        answer = self.answers[known] if known is not None else Outcome(NOT_FOUND)
        if isinstance(answer, list):
            answer = answer.pop(0)
        for option in command:
            if option.startswith("-out="):
                Path(option.removeprefix("-out=")).touch()
        if isinstance(answer, Outcome):
            return answer
        return Outcome(1, error="refused") if answer is None else Outcome(0, answer)

    def without(self, program: str) -> "Script":
        """Take a program away."""
        self.answers = {begin: answer for begin, answer in self.answers.items() if not begin.startswith(program)}
        return self

    def count(self, begin: str) -> int:
        """Count the calls that begin so."""
        return sum(text.startswith(begin) for text in self.asked)


def _text(answer: Any) -> Any:
    return json.dumps(answer) if isinstance(answer, dict) else answer

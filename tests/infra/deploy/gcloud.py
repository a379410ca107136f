"""A fake gcloud: a program for the PATH that answers the calls of a deployment, and records them.

What it answers is in a file, so that a test can take something away: `answers` maps how a command begins to its
output; the longest match wins, and None makes it fail. A call without an answer fails, so that none goes
unnoticed.
"""

import json
import sys
from pathlib import Path
from typing import Any

from signalbox_tools.deploy import project_facts

PROJECT = "demo-project"
REGION = "us-central1"
ACCOUNT = "ann@example.com"
TOKEN = "a-token"  # noqa: S105  not a secret
OF_THE_BOOTSTRAP = ("iamcredentials.googleapis.com", "serviceusage.googleapis.com", "sts.googleapis.com")
ENABLED = "\n".join(sorted({*project_facts.APIS, *project_facts.EVENTS_APIS, *OF_THE_BOOTSTRAP}))

PROGRAM = """import json, sys
with open({record!r}, "a") as record:
    record.write(json.dumps(sys.argv[1:]) + "\\n")
answers = json.load(open({answers!r}))
call = " ".join(sys.argv[1:])
known = max((begin for begin in answers if call.startswith(begin)), key=len, default=None)
if known is None or answers[known] is None:
    sys.exit("ERROR: (gcloud) " + call)
print(answers[known] if isinstance(answers[known], str) else json.dumps(answers[known]))
"""


def answers() -> dict[str, Any]:
    """Return the answers of a project that was prepared and has nothing deployed."""
    return {
        "--version": "Google Cloud SDK 528.0.0",
        "auth list": ACCOUNT,
        "auth print-access-token": TOKEN,
        "auth print-identity-token": TOKEN,
        f"projects describe {PROJECT}": {"lifecycleState": "ACTIVE"},
        f"billing projects describe {PROJECT}": {"billingEnabled": True},
        f"services list --enabled --project={PROJECT}": ENABLED,
        f"storage buckets describe gs://{PROJECT}-signalbox-state": f"{PROJECT}-signalbox-state",
        f"storage buckets create gs://{PROJECT}-signalbox-state": "",
        f"storage buckets update gs://{PROJECT}-signalbox-state": "",
        "functions regions list": f"{REGION}\neurope-west1",
        "tasks locations list": f"{REGION}\neurope-west1",
        "scheduler locations list": f"{REGION}\neurope-west1",
        f"functions runtimes list --region={REGION}": "python312\npython313",
        "functions list --v2 --regions=-": [],
        "run services list": [],
        "firestore databases list": [],
        "functions describe": f"projects/{PROJECT}/topics/eventarc-{REGION}-dev-link-fan-out-123456-789",
        "eventarc triggers describe": f"projects/{PROJECT}/topics/eventarc-{REGION}-dev-shop-ordered-789",
        "pubsub topics list-subscriptions": f'["projects/{PROJECT}/subscriptions/eventarc-{REGION}-a-123456-sub-1"]',
        "pubsub subscriptions describe": {},
        "pubsub subscriptions add-iam-policy-binding": "",
        "pubsub subscriptions update": "",
        "tasks queues list": "",
        "tasks queues purge": "",
        "scheduler jobs describe dev-sweep": {"lastAttemptTime": "2026-01-01T00:00:00Z", "status": {}},
    }


class Gcloud:
    """The program, in the folder ``bin`` of a folder as gcloud is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._answers, self._record = folder / "answers.json", folder / "record.txt"
        program = folder / "bin" / "gcloud"
        program.parent.mkdir(parents=True)
        text = PROGRAM.format(record=str(self._record), answers=str(self._answers))
        program.with_suffix(".py").write_text(text)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{program.with_suffix(".py")}" "$@"\n')
        program.chmod(0o755)
        self.answer()

    def answer(self, **changes: Any) -> None:
        """Write the answers of a prepared project, with these changes."""
        self._answers.write_text(json.dumps(answers() | {"info": str(self.folder)} | changes))

    @property
    def asked(self) -> list[list[str]]:
        """The arguments of every call so far."""
        return [json.loads(line) for line in self._record.read_text().splitlines()]

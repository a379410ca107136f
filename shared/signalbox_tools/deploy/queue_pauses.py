"""Pause queues and schedules of a deployment, all or some, and resume them.

Schedules are paused first, since they enqueue tasks, and resumed last. Queues and schedules that already have the
wanted state are left alone, so both commands can be repeated after an interruption. If none of them exists, the command
fails: it looked in another region or project, and the deployment continues.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from signalbox.core.kit_names import queue_of
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import CommandFailed, Run
from signalbox_tools.terminal_text import counted

PAUSED, RUNNING = "PAUSED", "RUNNING"
SCHEDULES, QUEUES = ("scheduler", "jobs"), ("tasks", "queues")
STATES = {"ENABLED": RUNNING}
"""Cloud Scheduler's name of the state that Cloud Tasks calls RUNNING."""

STILL = """Deliveries that have begun end by themselves, within their functions' timeout_seconds. Events of documents
and calls of people still reach the functions; the tasks that they enqueue wait. `resume` lets everything continue."""


@dataclass(frozen=True, slots=True)
class Stillness:
    """The steps of `signalbox pause` and `signalbox resume`, with names of queues and schedules of the catalogue."""

    target: Target
    queues: Sequence[str]
    schedules: Sequence[str]
    say: Callable[[str], None]
    run: Run

    def pause(self) -> None:
        """Pause schedules, then queues. Raises `CommandFailed`."""
        schedules = self._set(SCHEDULES, "pause", PAUSED)
        queues = self._set(QUEUES, "pause", PAUSED)
        self.say(f"Paused {counted(schedules, 'schedule')} and {counted(queues, 'queue')}.\n{STILL}")

    def resume(self) -> None:
        """Resume queues, then schedules. Raises `CommandFailed`."""
        queues = self._set(QUEUES, "resume", RUNNING)
        schedules = self._set(SCHEDULES, "resume", RUNNING)
        self.say(f"Resumed {counted(queues, 'queue')} and {counted(schedules, 'schedule')}.")

    def _set(self, kind: tuple[str, str], command: str, wanted: str) -> int:
        """Bring the queues or schedules into a state; return the number of those that changed."""
        own = {self.target.service(name) for name in (self.queues if kind == QUEUES else self.schedules)}
        if not own:
            return 0
        listed: list[dict[str, Any]] = json.loads(self._gcloud(*kind, "list", "--format=json") or "[]")
        states = {str(each["name"]).rpartition("/")[2]: str(each.get("state", "")) for each in listed}
        # The shards that the region has: a catalogue with fewer of them leaves the others until they are empty.
        found = {name for name in states if (queue_of(name) if kind == QUEUES else name) in own}
        if not found:
            raise CommandFailed(self._absent(kind, own))
        names = sorted(name for name in found if STATES.get(states[name], states[name]) != wanted)
        for name in names:
            self._gcloud(*kind, command, name, "--quiet")
        return len(names)

    def _absent(self, kind: tuple[str, str], own: set[str]) -> str:
        target = self.target
        what = "queue" if kind == QUEUES else "schedule"
        return (
            f"There is no {what} of {target.environment} in {target.region} of {target.project}: none of "
            f"{', '.join(sorted(own))}. If the deployment is in another region, name it with --region (make: REGION=…) "
            f'or set "region" in {target.own_file}.'
        )

    def _gcloud(self, *command: str) -> str:
        where = (f"--location={self.target.region}", f"--project={self.target.project}")
        outcome = self.run(("gcloud", *command, *where), folder=self.target.root)
        if not outcome.ok:
            raise CommandFailed(outcome.error.strip())
        return outcome.text

"""Transient refusals of Google's services: a schedule of delays, drawn from a seed, on a virtual clock.

Rights, APIs and agents take effect some time after they were granted, enabled or made. Until then the answers are
Google's: their texts are from the documentation and threads that `google_refusals.py` of `signalbox_tools.deploy`
names. Some seeds have a project in which a deployment cannot succeed, because an organisation forbids it or a queue's
name is taken.
"""

import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.infra.google_provider import refusal_texts as texts
from tests.infra.google_provider.resource_values import Value
from tests.infra.google_provider.service_requirements import API_OF
from tests.infra.virtual_clock import VirtualClock

FUNCTION = "google_cloudfunctions2_function"
QUEUE = "google_cloud_tasks_queue"
ACCOUNT = "google_service_account"
DATABASE = "google_firestore_database"
FIELD = "google_firestore_field"
RIGHTS = ("_iam_binding", "_iam_member")
QUEUE_NAME_SECONDS = 3 * 86400.0
FIRST_FIELD_SECONDS = 0.1  # real ones, in which Terraform asks for the others, if they do not wait
AT_ONCE = 10  # operations that Terraform runs at the same time: each takes a tenth of its time on the one clock
STEP_SECONDS = {FUNCTION: 120.0 / AT_ONCE}
READ_TOO_EARLY = {DATABASE: 0.5, ACCOUNT: 0.002}
"""How often the read after a create finds nothing: terraform-provider-google#22533, #21694."""
FIELD_SECONDS = (30.0, 120.0)  # one long-running operation for each field


@dataclass(frozen=True, slots=True)
class Refused:
    """A create that failed. `made`: the resource exists all the same; `lost`: and Terraform did not get its id.

    Without a text it succeeded, and the read that follows it did not find the resource yet.
    """

    text: str
    made: bool = False
    lost: bool = False


@dataclass
class Delays:
    """When what was done is known everywhere."""

    seed: int
    clock: VirtualClock
    known_at: dict[str, float] = field(default_factory=dict)
    taken_until: dict[str, float] = field(default_factory=dict)
    mishaps: set[str] = field(default_factory=set)
    contended: int = 0

    def __post_init__(self) -> None:
        rng = self._drawn("project")
        self.contended = rng.choice((0, 0, 2, 5))
        self.contends = self._drawn("contention of fields").choice((0.0, 0.0, 0.02))
        self.builds_a_minute = rng.choice((60, 60, 60, 4))
        self.forbidden = rng.choices(("", "members", "region", "queue name"), (91, 3, 3, 3))[0]
        self._builds: list[float] = []
        self._first_field = ""
        self._lock = threading.Lock()

    def refusal(self, kind: str, value: Value) -> Refused | None:
        """Wait for the duration of an operation. Return the refusal of a create, if it is refused."""
        refused = next(self._refusals(kind, value), None)
        self.clock.sleep(self._seconds(kind, value) if refused is None or refused.made else 0.5)
        if refused is None:
            self._done(kind, value)
        return refused

    @contextmanager
    def making(self, kind: str) -> Iterator[bool]:
        """Wait while a new database makes its first field; yield whether another one is made at the same time."""
        field = kind.startswith("google_firestore_f")
        with self._lock:
            contends = field and self._first_field == "being made"
            first = field and not self._first_field
            self._first_field = "being made" if first else self._first_field
        if first:
            time.sleep(FIRST_FIELD_SECONDS)
        try:
            yield contends
        finally:
            if first:
                self._first_field = "made"

    def enabled(self, api: str) -> None:
        """Begin to make an API known, unless it was; its agent follows, with its rights."""
        if api in self.known_at:
            return
        self._begin(api, 240, often=60)
        if api.startswith("eventarc."):
            self._begin("agent of eventarc", 420, often=180)
        if api.startswith("cloudfunctions."):
            self._begin("agent of functions", 300, often=60)

    def updated(self, kind: str) -> None:
        """Wait for the duration of an update: a function is built again."""
        self.clock.sleep(STEP_SECONDS.get(kind, 0.5))

    def deleted(self, kind: str, value: Value) -> None:
        """Note that a resource went: a queue's name stays taken for days."""
        if kind == QUEUE:
            self.taken_until[value["id"]] = self.clock.now() + QUEUE_NAME_SECONDS

    def late(self, what: str, longest: float) -> float:
        """Return how many seconds after a deployment something works."""
        return self._drawn(what).uniform(0, longest)

    def _refusals(self, kind: str, value: Value) -> Iterator[Refused]:
        for api in API_OF.get(kind, ()):
            if not self._known(api):
                yield Refused(texts.API.format(api=api))
        yield from self._late(kind, value)
        yield from self._mishap(kind, value)

    def _late(self, kind: str, value: Value) -> Iterator[Refused]:
        for member in _members(value):
            if member.startswith("serviceAccount:") and not self._known(member.partition(":")[2]):
                yield Refused(texts.ACCOUNT.format(member=member))
        if kind == "google_cloud_run_service_iam_member" and self.forbidden == "members":
            yield Refused(texts.MEMBERS)
        if kind == QUEUE and (self.forbidden == "queue name" or not self._free(value["id"])):
            yield Refused(texts.QUEUE_NAME)
        if kind == FUNCTION:
            yield from self._late_function(value)
        if kind == "google_eventarc_trigger" and not self._known("agent of eventarc"):
            yield Refused(texts.EVENTARC)
        if kind == "google_monitoring_slo":
            for metric in re.findall(r"logging\.googleapis\.com/user/([\w-]+)", str(value)):
                if not self._known(f"metric {metric}"):
                    yield Refused(texts.METRIC.format(metric=metric))
        if kind == FIELD and self._contended_once(value["id"]):
            yield Refused(texts.CONTENTION)

    def contention(self) -> Refused | None:
        """Return the refusal of a field that contends with the first, in the seeds that have it so often."""
        self.contended -= 1
        return Refused(texts.CONTENTION) if self.contended >= 0 else None

    def _contended_once(self, field: str) -> bool:
        name = f"contention of {field}"
        again = name in self.mishaps
        self.mishaps.add(name)
        return not again and self._drawn(name).random() < self.contends

    def _late_function(self, value: Value) -> Iterator[Refused]:
        if sum(at > self.clock.now() - 60 for at in self._builds) >= self.builds_a_minute:
            yield Refused(texts.QUOTA)
        self._builds.append(self.clock.now())
        if self.forbidden == "region":
            yield Refused(texts.REGION)
        if value.get("event_trigger") and not self._known("agent of eventarc"):
            yield Refused(texts.EVENTARC)
        if not self._known("agent of functions"):
            yield Refused(texts.REPOSITORY)
        builder = str(value["build_config"][0]["service_account"]).rpartition("/")[2]
        if not self._known(f"rights of {builder}"):
            yield Refused(texts.SOURCES.format(builder=builder), made=True)

    def _mishap(self, kind: str, value: Value) -> Iterator[Refused]:
        """Fail once in a while after the resource exists; each resource once."""
        name = f"{kind} {value['id']}"
        again = name in self.mishaps or kind.endswith(RIGHTS) or kind == "google_project_service"
        chance = 1.0 if again else self._drawn(name).random()
        self.mishaps.add(name)
        if not again and kind in READ_TOO_EARLY and self._drawn(f"read of {name}").random() < READ_TOO_EARLY[kind]:
            yield Refused("", made=True, lost=True)
        if chance < 0.01:
            yield Refused(texts.UNAVAILABLE, made=True)
        elif chance < 0.0105:
            yield Refused(texts.UNAVAILABLE, made=True, lost=True)

    def _seconds(self, kind: str, value: Value) -> float:
        if kind == FIELD:
            return self._drawn(f"operation of {value['id']}").uniform(*FIELD_SECONDS) / AT_ONCE
        return STEP_SECONDS.get(kind, 0.5)

    def _done(self, kind: str, value: Value) -> None:
        if kind == "google_project_service":
            self.enabled(value["service"])
        elif kind == ACCOUNT:
            self._begin(value["email"], 60, often=1)  # the provider itself waits ten
        elif kind == "google_logging_metric":
            self._begin(f"metric {value['name']}", 600, often=300)
        elif kind.endswith(RIGHTS):
            for member in _members(value):
                self._begin(f"rights of {member.partition(':')[2]}", 540, often=120)

    def _begin(self, what: str, longest: float, often: float) -> None:
        """Make something known after a delay: mostly short ones, one in eight a long one."""
        rng = self._drawn(what)
        delay = rng.uniform(0, longest if rng.random() < 1 / 8 else often)
        self.known_at[what] = max(self.known_at.get(what, 0.0), self.clock.now() + delay)

    def _known(self, what: str) -> bool:
        """Return whether it is known by now. What was not begun is not, if it is an API; all else was there before."""
        return self.clock.now() >= self.known_at.get(what, float("inf") if what.endswith("googleapis.com") else 0.0)

    def _free(self, queue: str) -> bool:
        return self.clock.now() >= self.taken_until.get(queue, 0.0)

    def _drawn(self, what: str) -> random.Random:
        return random.Random(f"{self.seed}/{what}")


def _members(right: Value) -> list[str]:
    """Return the members to whom a right is granted, in their order."""
    return sorted(map(str, right.get("members") or filter(None, [right.get("member")])))

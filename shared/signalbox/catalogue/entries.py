"""The entries of a catalogue: values that refuse settings that cannot work.

Each entry checks itself; `signalbox.catalogue.reading` checks that they are consistent with each other.
The names and limits are those of Cloud Functions, Cloud Tasks, Eventarc and Cloud Scheduler.

The origins of `cors` in a function's entry are compared as texts, so they must be written as browsers send them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from signalbox.catalogue.cron import UTC_NAME, cron_error
from signalbox.core import queries
from signalbox.core.calls import Call
from signalbox.core.document_patterns import DocumentPattern
from signalbox.core.names import BUCKET, CALL_OBJECT, CALLBACK_KEYS, DOCUMENT_EVENTS_PATH
from signalbox.core.problems import Problem
from signalbox.history.model import HistoryRule
from signalbox.objects.model import CLASS_NAME
from signalbox.rates.requests import RateSettings
from signalbox.rates.requests import check_name as check_rate_name
from signalbox.semaphores.limits import LEASE_SECONDS_DEFAULT
from signalbox.semaphores.requests import SemaphoreSettings, check_name

INVOKERS = ("people", "queue", "event", "schedule")
AUTH = ("", "firebase")
EVENTS = tuple(f"google.cloud.firestore.document.v1.{kind}" for kind in ("written", "created", "updated", "deleted"))
DISPATCHES_PER_SECOND_MAX = 500  # Cloud Tasks' limits of a queue, as are the next two
CONCURRENT_MAX = 5_000
DOUBLINGS_MAX = 16
CPUS_WHOLE = (1, 2, 4, 6, 8)  # Cloud Run's limits, as are the next four; below one CPU, any fraction from CPU_LEAST
CPU_LEAST = 0.08
CONCURRENCY_MAX = 1_000
EVENT_SECONDS_MAX = 540
SECONDS_MAX = 3_600
TASK_SECONDS_MAX = 600
INSTANCES_MAX = 1_000
RUNTIMES = ("python311", "python312", "python313", "python314")  # Google's; the kit needs 3.11
MEMORY = re.compile(r"[1-9][0-9]*(Mi|Gi)")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
TASK = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
RESERVED_BEGINNINGS = ("SIGNALBOX_", "GOOGLE_", "X_GOOGLE_", "FUNCTION_", "K_", "GUNICORN_", "CLOUDSDK_", "PYTHON")
RESERVED_VARIABLES = frozenset(
    {
        *("PORT", "THREADS", "THREADED_TIMEOUT_ENABLED", "CLOUD_RUN_TIMEOUT_SECONDS", "PATH", "HOME", "GCP_PROJECT"),
        *("FIRESTORE_EMULATOR_HOST", "CLOUD_TASKS_EMULATOR_HOST"),
    }
)
TAKEN_OVER = re.compile(
    r"(LD|DYLD)_(PRELOAD|AUDIT|INSERT_LIBRARIES|LIBRARY_PATH)|GLIBC_TUNABLES|GCONV_PATH|OPENSSL_.*|SSLKEYLOGFILE"
    r"|BASH_ENV|(HTTP|HTTPS|ALL)_PROXY|GCE_METADATA_.*|NO_GCE_CHECK|GCLOUD_PROJECT"
)
"""Variables that change which code a process loads, or where its requests and credentials go."""

SECRET = re.compile(r"[A-Za-z0-9_-]{1,255}(:([1-9][0-9]*|latest))?")
ROLE = re.compile(r"roles/[A-Za-z0-9.]+")
BROAD_ROLE = re.compile(
    r"roles/(owner|editor|viewer|browser|writer|reader|admin|iam\..*|resourcemanager\..*|orgpolicy\..*|billing\..*"
    r"|[A-Za-z0-9.]*[aA]dmin|datastore\..*|cloudtasks\..*|secretmanager\..*|run\..*|cloudfunctions\..*)"
)
"""Roles that can change the project, its permissions or the deployment, and roles that the kit itself grants."""

VPC_KEYS = ("network", "subnetwork", "egress")
EGRESS = ("private-ranges", "all-traffic")
NETWORK = re.compile(r"(projects/[^/]+/(global|regions/[a-z0-9-]+)/(sub)?networks?/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

ENQUEUING = "tasks"
"""The kit's function that enqueues the tasks of schedules."""

QUEUE_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")


class CatalogueError(ValueError):
    """The catalogue is inconsistent with itself or with the project. The message names the entry and what to change."""


def refuse(wrong: bool, message: str) -> None:
    """Raise `CatalogueError` with the message if `wrong`."""
    if wrong:
        raise CatalogueError(message)


def url_segment(name: str) -> str:
    """Return a function's URL segment, which is also its name in the cloud: ``link-fan-out`` for ``link_fan_out``."""
    return name.replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A folder with a ``main.py`` whose entry point is called `name`. `folder` is absolute.

    An instance in the cloud has `memory` and `cpu` and handles `concurrency` requests at once, each in a thread.
    """

    name: str
    folder: Path
    invoked_by: tuple[str, ...]
    enqueues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    flows: tuple[str, ...] = ()
    public: bool = False
    auth: str = ""
    cors: tuple[str, ...] = ()
    exposes: tuple[str, ...] = ()
    memory: str = "512Mi"
    cpu: float = 1
    concurrency: int = 16
    timeout_seconds: int = 540
    instances_max: int = 10
    instances_min: int = 0
    runtime: str = "python313"
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    roles: tuple[str, ...] = ()
    invokes: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    isolated: bool = False
    vpc: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, list[str]] = field(default_factory=dict)
    """The arguments of each task whose arguments are known, an optional one with a question mark."""

    def __post_init__(self) -> None:
        refuse(not NAME.fullmatch(self.name), "the name must be lower case words joined by single underscores")
        self._can_be_invoked()
        self._is_open_to_people_only()
        self._tasks_can_be_called()
        self._objects_and_flows_can_be_woken()
        self._origins_can_call()
        self._exposed_code_exists()
        self._environment_is_its_own()
        self._roles_are_narrow()
        self._archives_are_buckets()
        self._needs_no_right_if_isolated()
        self._network_can_be_joined()
        refuse(not (self.folder / "main.py").is_file(), f"there is no main.py in its folder {self.folder}")
        self._instance_can_be_had()

    def _can_be_invoked(self) -> None:
        refuse(not self.invoked_by, f"invoked_by must name at least one of {', '.join(INVOKERS)}")
        for invoker in self.invoked_by:
            refuse(invoker not in INVOKERS, f"invoked_by contains {invoker!r}; choose from {', '.join(INVOKERS)}")
        refuse(
            "event" in self.invoked_by and not self._for_events and "queue" not in self.invoked_by,
            "a function with document_written receives CloudEvents only: write on_document, which makes tasks and "
            "needs queue in invoked_by, or add another function for the other callers",
        )

    def _is_open_to_people_only(self) -> None:
        refuse(self.auth not in AUTH, f"auth is {self.auth!r}; omit it, or write auth: firebase")
        refuse(
            self.public and bool(self.auth),
            "public: true admits every caller, and auth: firebase those who signed in: write only one of them",
        )
        for_pages = "auth" if self.auth else "public"
        refuse(self.open_to_all and "people" not in self.invoked_by, f"{for_pages} is for functions that people invoke")
        refuse(
            self.open_to_all and "schedule" in self.invoked_by,
            "an open function cannot verify that its schedule calls: add another function for the schedule",
        )

    def _tasks_can_be_called(self) -> None:
        by_queue = "queue" in self.invoked_by
        refuse(bool(self.tasks) and not by_queue, "tasks are called by queues: add queue to invoked_by")
        refuse(bool(self.queues) and not by_queue, "queues names its callers: add queue to invoked_by")
        for task in self.tasks:
            refuse(not TASK.fullmatch(task), f"tasks names {task!r}, which is not a name of a Python function")
            refuse(task == CALL_OBJECT, f"tasks names {task!r}, a task of the kit's own: choose another name")

    def _origins_can_call(self) -> None:
        try:
            check_origins(self.cors, open_to_all=self.open_to_all)
        except ValueError as error:
            raise CatalogueError(str(error)) from error

    def _exposed_code_exists(self) -> None:
        refuse(
            bool(self.exposes) and not self.open_to_all, "exposes is for an open function: a private one has all routes"
        )
        for name in self.exposes:
            unknown = name not in (*self.objects, *self.flows)
            refuse(unknown, f"exposes names {name!r}, which is in neither its objects nor its flows")

    def _objects_and_flows_can_be_woken(self) -> None:
        woken = "queue" in self.invoked_by
        refuse(bool(self.objects) and not woken, "objects are woken by a queue: add queue to invoked_by")
        refuse(bool(self.flows) and not woken, "flows are woken by a queue: add queue to invoked_by")
        for name in self.objects:
            refuse(
                not CLASS_NAME.fullmatch(name),
                f"objects names {name!r}, which is not a name for a class of objects",
            )
        for name in self.flows:
            refuse(not TASK.fullmatch(name), f"flows names {name!r}, which is not a name of a Python function")

    def _environment_is_its_own(self) -> None:
        for name, value in {**self.env, **self.secrets}.items():
            kind = "secrets" if name in self.secrets else "env"
            refuse(not VARIABLE.fullmatch(name), f"{kind} names {name!r}; write capitals, digits and underscores")
            reserved = name.startswith(RESERVED_BEGINNINGS) or name in RESERVED_VARIABLES
            reserved = reserved and (name, kind) != (CALLBACK_KEYS, "secrets")
            refuse(reserved, f"{kind} names {name}, a variable of the platform or the kit: choose another name")
            refuse(
                bool(TAKEN_OVER.fullmatch(name)),
                f"{kind} names {name}, which changes the code that the whole process loads, or where it sends its "
                "requests and credentials: choose another name, and pass the value in your code",
            )
            refuse(not isinstance(value, str), f"{kind}.{name} must be a string, not {value!r}: put it in quotes")
        twice = sorted(self.env.keys() & self.secrets.keys())
        refuse(bool(twice), f"{', '.join(twice)}: name it in env or in secrets, not in both")
        for name, secret in self.secrets.items():
            wrong = f"secrets.{name} is {secret!r}; write the secret's name in Secret Manager, with :3 for a version"
            refuse(not SECRET.fullmatch(secret), wrong)

    def _roles_are_narrow(self) -> None:
        for role in self.roles:
            refuse(not ROLE.fullmatch(role), f"roles names {role!r}; write a predefined role: roles/aiplatform.user")
            refuse(
                bool(BROAD_ROLE.fullmatch(role)),
                f"roles names {role}, which can change the project or its permissions: name a narrower role, or "
                "grant it by hand",
            )

    def _archives_are_buckets(self) -> None:
        for bucket in self.archives:
            refuse(not BUCKET.fullmatch(f"gs://{bucket}"), f"archives names {bucket!r}, which is not a bucket's name")

    def _needs_no_right_if_isolated(self) -> None:
        needs = ("enqueues", "tasks", "objects", "flows", "secrets", "roles", "invokes", "archives")
        for key in needs if self.isolated else ():
            refuse(
                bool(getattr(self, key)),
                f"isolated: its account has no rights, so it can have no {key}: remove them, or isolated",
            )
        for caller in {"queue", "event"} & set(self.invoked_by) if self.isolated else ():
            refuse(True, f"isolated: a function that {caller} invokes needs the database: remove {caller}, or isolated")

    def _network_can_be_joined(self) -> None:
        unknown = sorted(self.vpc.keys() - VPC_KEYS)
        refuse(bool(unknown), f"vpc: unknown keys {unknown}; choose from {', '.join(VPC_KEYS)}")
        named = {key: name for key, name in self.vpc.items() if key != "egress"}
        refuse(bool(self.vpc) and not named, "vpc needs a network or a subnetwork")
        for key, name in named.items():
            wrong = f"vpc.{key} is {name!r}; write a name in lower case, or projects/… of a shared network"
            refuse(not isinstance(name, str) or not NETWORK.fullmatch(name), wrong)
        egress = self.vpc.get("egress", EGRESS[0])
        refuse(egress not in EGRESS, f"vpc.egress is {egress!r}; choose from {', '.join(EGRESS)}")

    def _instance_can_be_had(self) -> None:
        refuse(not MEMORY.fullmatch(self.memory), f"memory is {self.memory!r}; write 512Mi or 1Gi")
        fraction = CPU_LEAST <= self.cpu < 1
        refuse(not fraction and self.cpu not in CPUS_WHOLE, f"cpu must be {CPU_LEAST} to 1, or 2, 4, 6, 8: {self.cpu}")
        _between("concurrency", self.concurrency, 1, CONCURRENCY_MAX)
        refuse(fraction and self.concurrency > 1, "concurrency above 1 needs a whole cpu: set concurrency: 1 or cpu: 1")
        _between("timeout_seconds", self.timeout_seconds, 1, EVENT_SECONDS_MAX if self._for_events else SECONDS_MAX)
        refuse(
            "queue" in self.invoked_by and self.timeout_seconds > TASK_SECONDS_MAX,
            f"timeout_seconds must be at most {TASK_SECONDS_MAX} in a function that queues invoke: after that, "
            "Cloud Tasks would deliver a task again while its code still runs",
        )
        _between("instances_max", self.instances_max, 1, INSTANCES_MAX)
        _between("instances_min", self.instances_min, 0, self.instances_max)
        refuse(self.runtime not in RUNTIMES, f"runtime is {self.runtime!r}; choose from {', '.join(RUNTIMES)}")

    @property
    def open_to_all(self) -> bool:
        """Whether the platform admits every caller; the function itself checks them, if `auth` says so."""
        return self.public or bool(self.auth)

    @property
    def is_split(self) -> bool:
        """Whether it is deployed twice: an open service for people and a private one for its tasks."""
        return self.open_to_all and "queue" in self.invoked_by

    @property
    def segment(self) -> str:
        return url_segment(self.name)

    @property
    def _for_events(self) -> bool:
        """Whether it receives only CloudEvents. With `queue`, its triggers have handlers, which are tasks."""
        return self.invoked_by == ("event",)

    @property
    def signature_type(self) -> str:
        """The signature type of functions-framework: ``http`` or ``cloudevent``."""
        return "cloudevent" if self._for_events else "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A Cloud Tasks queue. With ``attempts_max`` -1 it retries without a limit."""

    name: str
    dispatches_per_second: float
    concurrent_max: int
    attempts_max: int
    backoff_min_seconds: float
    backoff_max_seconds: float
    doublings_max: int

    def __post_init__(self) -> None:
        refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        _between("dispatches_per_second", self.dispatches_per_second, 0.001, DISPATCHES_PER_SECOND_MAX)
        _between("concurrent_max", self.concurrent_max, 1, CONCURRENT_MAX)
        _between("doublings_max", self.doublings_max, 0, DOUBLINGS_MAX)
        refuse(self.attempts_max < 1 and self.attempts_max != -1, "attempts_max must be -1 (no limit) or at least 1")
        refuse(self.backoff_min_seconds < 0, "backoff_min_seconds must not be negative")
        refuse(self.backoff_max_seconds < self.backoff_min_seconds, "backoff_max_seconds is below backoff_min_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Firestore's `event` of documents under the pattern `document` (``documents/{key}``) invokes `function`.

    With a `handler`, the function enqueues that task of its own for the event, and may have more such triggers.
    """

    name: str
    function: str
    event: str
    document: str
    handler: str = ""

    def __post_init__(self) -> None:
        refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        refuse(self.event not in EVENTS, f"event is {self.event!r}; choose from {', '.join(EVENTS)}")
        if self.handler:
            self._pattern_is_known()
        segments = self.document.split("/")
        paths_a_document = self.document.endswith("=**}") or len(segments) % 2 == 0
        refuse(
            not (paths_a_document and all(segments)),
            f"document is {self.document!r}; write COLLECTION/{{ID}}, in pairs, no slash at an end",
        )

    def _pattern_is_known(self) -> None:
        try:
            DocumentPattern.parse(self.document)
        except ValueError as error:
            raise CatalogueError(f"document is {error}") from error

    @property
    def path(self) -> str:
        """The path at which the function receives its events, below its address; empty: the address itself."""
        return f"{DOCUMENT_EVENTS_PATH}/{self.handler}" if self.handler else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A call of `function` at the times of `cron` in `time_zone`, and locally every `local_every_seconds`.

    With a `task`, the function `ENQUEUING` is called instead, and enqueues that task of `function` with `arguments`,
    once for each scheduled time.
    """

    name: str
    function: str
    cron: str
    local_every_seconds: float = 60
    time_zone: str = UTC_NAME
    task: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        refuse(bool(error := cron_error(self.cron)), f"cron is {self.cron!r}; {error}")
        refuse(
            not _is_time_zone(self.time_zone), f"time_zone is {self.time_zone!r}; write a name such as Europe/Berlin"
        )
        refuse(self.local_every_seconds <= 0, "local_every_seconds must be more than 0")
        refuse(bool(self.arguments) and not self.task, "arguments are those of a task: name the task, too")
        if self.task:
            self._call_can_be_made()

    def _call_can_be_made(self) -> None:
        try:
            json.dumps(self.arguments, allow_nan=False)
            Call(self.function, self.task, self.arguments).checked("")
        except (TypeError, ValueError) as error:
            raise CatalogueError(f"arguments must be JSON: {error}; quote dates and times") from error
        except Problem as problem:
            raise CatalogueError(problem.detail) from problem

    @property
    def called(self) -> str:
        """The function that the scheduler calls."""
        return ENQUEUING if self.task else self.function

    @property
    def body(self) -> bytes:
        """The body of the scheduler's call: the task's call to enqueue as JSON, or nothing."""
        call = {"function": self.function, "task": self.task, "payload": self.arguments}
        return json.dumps(call).encode() if self.task else b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A composite index. Fields: ``name`` ascending, ``-name`` descending, ``name[]`` the members of a list."""

    name: str
    collection: str
    fields: tuple[str, ...]

    def __post_init__(self) -> None:
        refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        refuse(not self.collection or "/" in self.collection, "collection is the last name of a collection's path")
        try:
            queries.parse(self.collection, self.fields)
        except ValueError as error:
            raise CatalogueError(str(error)) from error

    @property
    def parsed(self) -> queries.Index:
        return queries.parse(self.collection, self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Documents whose versions are kept: those with these `keys`, or a `prefix` of their keys, or a `type`."""

    name: str
    keys: tuple[str, ...] = ()
    prefix: str = ""
    type: str = ""
    versions_max: int = 100
    days_max: float = 365

    def __post_init__(self) -> None:
        refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        self._can_be_kept()

    def _can_be_kept(self) -> None:
        try:
            _ = self.rule
        except ValueError as error:
            raise CatalogueError(str(error)) from error

    @property
    def rule(self) -> HistoryRule:
        """The same declaration as functions use it."""
        return HistoryRule(frozenset(self.keys), self.prefix, self.type, self.versions_max, self.days_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Semaphore:
    """A semaphore that a deployment and the local stack create, or whose limits they set."""

    name: str
    permits: int
    lease_seconds: float = LEASE_SECONDS_DEFAULT
    weights: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            check_name(self.name)
            SemaphoreSettings(self.permits, self.lease_seconds, weights=self.weights)
        except Problem as problem:
            raise CatalogueError(problem.detail) from problem

    @property
    def body(self) -> dict[str, Any]:
        """Return the body of the request that creates it."""
        weights = {"weights": dict(self.weights)} if self.weights else {}
        return {"permits": self.permits, "lease_seconds": self.lease_seconds, **weights}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate that a deployment and the local stack create, or whose limits they set."""

    name: str
    per_minute: float
    burst: int = 1

    def __post_init__(self) -> None:
        try:
            check_rate_name(self.name)
            RateSettings(self.per_minute, self.burst)
        except Problem as problem:
            raise CatalogueError(problem.detail) from problem

    @property
    def body(self) -> dict[str, float]:
        """Return the body of the request that creates it."""
        return {"per_minute": self.per_minute, "burst": self.burst}


@dataclass(frozen=True, slots=True)
class Declared:
    """A semaphore or rate to create with a `PUT` of `body` to `function`, or to set its limits."""

    function: str
    name: str
    body: Mapping[str, Any]


def _is_time_zone(name: str) -> bool:
    try:
        return name == UTC_NAME or ZoneInfo(name) is not None
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder's name, a path
        return False


def _between(name: str, value: float, least: float, most: float) -> None:
    refuse(not least <= value <= most, f"{name} must be from {least} to {most}: {value}")


# --- origins ---

ANY_ORIGIN = "*"
_HOST = r"([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:]+\])"
_ORIGIN = re.compile(rf"(http://(?!.*:80$)|https://(?!.*:443$)){_HOST}(:[1-9][0-9]{{0,4}})?")


def check_origins(origins: Sequence[str], *, open_to_all: bool) -> None:
    """Raise `ValueError` unless pages of these origins can call the function. `open_to_all`: it is not private."""
    for origin in origins:
        if origin != ANY_ORIGIN and not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"cors names {origin!r}, which is not an origin: write https://app.example.com or "
                "http://localhost:5173, in lower case, without a path, a slash at its end or the ports 80 and 443; "
                "or only '*', for every origin"
            )
    if ANY_ORIGIN in origins and len(origins) > 1:
        raise ValueError("cors contains '*', which permits every origin: remove the other origins")
    if origins and not open_to_all:
        raise ValueError(
            "cors is for functions that browsers reach. Cloud Run refuses a browser's preflight to a private function, "
            "since it has no token: add public: true or auth: firebase"
        )

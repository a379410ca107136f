"""The entry of a function in the catalogue: its callers, resources, variables and rights, with Cloud Run's limits."""

import re
from dataclasses import field
from difflib import get_close_matches
from keyword import iskeyword
from pathlib import Path

from signalbox.adapters.settings import TASKS_SUFFIX
from signalbox.catalogue.catalogue_errors import CatalogueError, check_between, refuse
from signalbox.catalogue.origins import check_origins
from signalbox.core.kit_names import BUCKET, CALL_OBJECT, CALLBACK_KEYS
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.objects.model import CLASS_NAME

INVOKERS = ("people", "queue", "event", "schedule")
AUTH = ("", "firebase")
CPUS_WHOLE = (1, 2, 4, 6, 8)  # Cloud Run's limits, like the next four; below one CPU, any fraction from CPU_LEAST
CPU_LEAST = 0.08
CONCURRENCY_MAX = 1_000
EVENT_SECONDS_MAX = 540
SECONDS_MAX = 3_600
TASK_SECONDS_MAX = 600
INSTANCES_MAX = 1_000
RUNTIMES = ("python311", "python312", "python313", "python314")  # Google's; the kit needs 3.11
MEMORY = re.compile(r"[1-9][0-9]*(Mi|Gi)")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
DATABASE = re.compile(r"[a-z][a-z0-9]{1,9}")
"""The name of a database in an entry. It becomes a part of the names of accounts, which have at most 30 characters."""

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
    r"|[A-Za-z0-9.]*([aA]dmin(\..*)?|[sS]erviceAgent)|datastore\..*|cloudtasks\..*|secretmanager\..*|run\..*"
    r"|cloudfunctions\..*|cloudbuild\..*|cloudscheduler\..*|deploymentmanager\..*|eventarc\..*|pubsub\.editor"
    r"|storage\.(objectUser|legacy.*))"
)
"""Roles that can change the project, its permissions or the deployment, and roles that the kit itself grants.

A role counts in the whole project: an account that may replace objects could replace the code of functions, and
Terraform's state.
"""

BUCKET_OF_THE_KIT = re.compile(
    r"(.*-)?signalbox-(exports|payloads|sources|state)|gcf-.*|.*[_.]cloudbuild|run-sources-.*"
)
"""Buckets of deployments. An account that may write their objects could replace code of any function."""

VPC_KEYS = ("network", "subnetwork", "egress")
EGRESS = ("private-ranges", "all-traffic")
NETWORK = re.compile(r"(projects/[^/]+/(global|regions/[a-z0-9-]+)/(sub)?networks?/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

ENQUEUING = "tasks"
"""The kit's function that enqueues the tasks of schedules."""


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
    database: str = ""
    """The database of this function and the others that name it, or an empty text for the environment's first one."""
    check_runs: bool = False
    vpc: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, list[str]] = field(default_factory=dict)
    """The arguments of each task whose arguments are known, an optional one with a question mark."""

    def __post_init__(self) -> None:
        refuse(not NAME.fullmatch(self.name), "the name must be lower case words joined by single underscores")
        refuse(iskeyword(self.name), f"{self.name} is a keyword, so main.py cannot define it: rename the function")
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
        refuse(not (self.folder / "main.py").is_file(), missing(self.folder))
        self._instance_can_be_had()
        refuse(self.check_runs and not self.flows, "check_runs is for functions with flows, and its code has none")

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
            refuse(task == CALL_OBJECT, f"tasks names {task!r}, a task of the kit: choose another name")

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
                f"roles names {role}, which can change the project, its permissions or all its buckets: name a "
                "narrower role, or grant it by hand",
            )

    def _archives_are_buckets(self) -> None:
        for bucket in self.archives:
            refuse(not BUCKET.fullmatch(f"gs://{bucket}"), f"archives names {bucket!r}, which is not a bucket's name")
            refuse(
                bool(BUCKET_OF_THE_KIT.fullmatch(bucket)),
                f"archives names {bucket!r}, whose objects are the code, the state or the data of deployments: name "
                "another bucket",
            )

    def _needs_no_right_if_isolated(self) -> None:
        refuse(
            self.isolated and bool(self.database), "isolated: its account has no right to any database: remove database"
        )
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
        check_between("concurrency", self.concurrency, 1, CONCURRENCY_MAX)
        refuse(fraction and self.concurrency > 1, "concurrency above 1 needs a whole cpu: set concurrency: 1 or cpu: 1")
        check_between(
            "timeout_seconds", self.timeout_seconds, 1, EVENT_SECONDS_MAX if self._for_events else SECONDS_MAX
        )
        refuse(
            "queue" in self.invoked_by and self.timeout_seconds > TASK_SECONDS_MAX,
            f"timeout_seconds must be at most {TASK_SECONDS_MAX} in a function that queues invoke: after that, "
            "Cloud Tasks would deliver a task again while its code still runs",
        )
        check_between("instances_max", self.instances_max, 1, INSTANCES_MAX)
        check_between("instances_min", self.instances_min, 0, self.instances_max)
        refuse(self.runtime not in RUNTIMES, f"runtime is {self.runtime!r}; choose from {', '.join(RUNTIMES)}")

    @property
    def open_to_all(self) -> bool:
        """Whether the platform admits every caller; the function itself checks them if it has `auth`."""
        return self.public or bool(self.auth)

    @property
    def is_split(self) -> bool:
        """Whether it is deployed twice: an open service for people and a private one for its tasks."""
        return self.open_to_all and "queue" in self.invoked_by

    @property
    def segment(self) -> str:
        return url_segment(self.name)

    @property
    def segments(self) -> tuple[str, ...]:
        """The URL segments of its deployments, which are also the ends of the names of their accounts."""
        return (self.segment, f"{self.segment}{TASKS_SUFFIX}") if self.is_split else (self.segment,)

    @property
    def _for_events(self) -> bool:
        """Whether events are its only callers. If queues also call it, each trigger's handler is a task."""
        return self.invoked_by == ("event",)

    @property
    def signature_type(self) -> str:
        """The signature type of functions-framework: ``http`` or ``cloudevent``."""
        return "cloudevent" if self._for_events else "http"


def missing(folder: Path) -> str:
    """Return why a folder has no function, with the folder next to it whose name resembles its name."""
    if folder.is_dir():
        return f"there is no main.py in its folder {folder}"
    siblings = [each.name for each in folder.parent.iterdir() if each.is_dir()] if folder.parent.is_dir() else []
    near = get_close_matches(folder.name, siblings, 1)
    remedy = f"; did you mean {near[0]!r}?" if near else ": make it, or correct the entry"
    return f"there is no folder {folder}{remedy}"

"""Settings: environment variables, read once into one frozen object. The only module that reads ``os.environ``."""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any, Self

from signalbox.core.effects import Backoff
from signalbox.core.kit_names import ANYONE, CALLBACK_KEYS, WRITERS, queue_account
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import DECLARED, PAYLOADS_OFF
from signalbox.core.records.composite_indexes import Index, parse

SQLITE = "sqlite"
"""The value of `firestore_emulator` if the store is a SQLite file."""

FIREBASE_KEYS_URL = "https://www.googleapis.com/robot/v1/metadata/x509/securetoken@system.gserviceaccount.com"

GOOGLE_KEYS_URL = "https://www.googleapis.com/oauth2/v1/certs"

TIMEOUT_SECONDS = 540
"""The catalogue's default of `timeout_seconds`."""


SPANS_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""OpenTelemetry's own variable, which its SDK also reads."""

ARCHIVES = str(Path(tempfile.gettempdir(), "signalbox-archives"))

SIGNATURES = ("checked", "removed")

CATALOGUE_FORMAT = 1
"""The newest format of the object with all functions' settings that this code reads."""

QUEUE = "{queue}"

TASKS_SUFFIX = "-tasks"
"""Suffix of a split function's name, in the address of its tasks."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of a function's store, queues and callers.

    The store and the queues:

    - ``firestore_emulator``, ``tasks_emulator``: ``HOST:PORT``, empty in the cloud. The former may be ``sqlite``: the
      store is a SQLite file, which the local stack names.
    - ``triggers``: the record pattern (``documents/{key}``) of each trigger for which a SQLite store has events.
    - ``indexes``: the declared composite indexes; None: queries are not checked for them.
    - ``history``: the documents whose versions are kept, as JSON.
    - ``document_writers``: the clients that write documents, ``anyone`` or only the ``kit``.
    - ``queue_backoffs``: the backoff of each queue.
    - ``queue_shards``: the number of shards of each queue that has several.
    - ``parts``: the kit's parts that are deployed, which the sweeper visits; None: all.
    - ``archives``: the folder of the archives of flows, outside of the cloud.
    - ``payloads``: where large values are stored, ``gs://BUCKET`` or a folder; empty: they are refused.
    - ``storage_emulator``: the address of an emulator of Cloud Storage, which Google's client uses; empty: no emulator.

    Calls that a function makes:

    - ``function_url``: the address that queues call, with ``{function}`` for a function's URL segment.
    - ``task_functions``: the tasks of each function that a call may name (an empty set: not known); None allows any.
    - ``task_queues``: the queues that a call may name; None allows any.
    - ``task_parameters``: the arguments of the tasks of functions, as JSON, as far as they are known.
    - ``object_classes``, ``flow_functions``: the function that has the code of each class of objects, and of each flow.
    - ``catalogue``: the object in Cloud Storage, ``BUCKET/NAME``, that has the settings of `with_catalogue` for all
      functions. Then these settings have only this function's own entries. If ``catalogue`` is empty, they have all
      entries.

    Calls that a function receives:

    - ``calling_queues``: the queues that call a function, by its name.
    - ``tasks_account``: the account as which a queue calls, with ``{queue}`` for the name of the queue's account.
    - ``scheduler_account``: the account as which schedules call.
    - ``events_account``: the account as which the triggers of this function's `on_document` call.
    - ``keys_url``: the address of the keys (PEM by id) that verify the tokens of these accounts.
    - ``signatures_removed``: whether Cloud Run has verified the tokens and removed their signatures.
    - ``origins``: the origins whose pages may call a function.
    - ``auth``: how a function authenticates its users (``firebase``).
    - ``user_keys_url``: the address of the keys that verify users' tokens.
    - ``tokens_unsigned``: whether unsigned tokens are accepted; impossible in a deployment.
    - ``open_functions``: the functions that the platform opens to the network, each with the names of the flows and
      classes of objects that it exposes.
    - ``base_url``: the address, up to a function's URL segment, at which people and other systems call; empty: the
      address that queues call.
    - ``callback_keys``: the keys of callbacks, one a line; the first one signs.

    The process:

    - ``split_functions``: the functions that are deployed twice.
    - ``part``: the part of a split function that this process serves, ``people`` or ``tasks``; empty: all of it.
    - ``timeout_seconds``: how long the platform lets a request run.
    - ``elsewhere``: functions of other databases, each with its URL segment or, on a local stack, its address.
    - ``timeouts``: the same for each function, if several share a process, as in the local stack.
    - ``revision``: the time of the deployment of this function's code, as a number; 0 if there is none.
    - ``spans_endpoint``: the address to which spans are exported, by OpenTelemetry's protocol; empty: no export.
    """

    project: str
    location: str
    database: str
    firestore_emulator: str
    tasks_emulator: str
    function_url: str
    queue_prefix: str
    tasks_account: str
    triggers: Mapping[str, str] = field(default_factory=dict)
    task_functions: Mapping[str, frozenset[str]] | None = None
    task_queues: frozenset[str] | None = None
    scheduler_account: str = ""
    keys_url: str = GOOGLE_KEYS_URL
    signatures_removed: bool = False
    in_cloud: bool = False
    indexes: tuple[Index, ...] | None = None
    calling_queues: Mapping[str, frozenset[str]] = field(default_factory=dict)
    queue_backoffs: Mapping[str, Backoff] = field(default_factory=dict)
    queue_shards: Mapping[str, int] = field(default_factory=dict)
    timeout_seconds: float = TIMEOUT_SECONDS
    origins: Mapping[str, frozenset[str]] = field(default_factory=dict)
    auth: Mapping[str, str] = field(default_factory=dict)
    user_keys_url: str = FIREBASE_KEYS_URL
    tokens_unsigned: bool = False
    split_functions: frozenset[str] = frozenset()
    part: str = ""
    open_functions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    object_classes: Mapping[str, str] = field(default_factory=dict)
    flow_functions: Mapping[str, str] = field(default_factory=dict)
    revision: int = 0
    history: str = "[]"
    document_writers: str = ANYONE
    catalogue: str = ""
    base_url: str = ""
    callback_keys: str = field(default="", repr=False)
    task_parameters: str = "{}"
    spans_endpoint: str = ""
    events_account: str = ""
    archives: str = ARCHIVES
    storage_emulator: str = ""
    payloads: str = ""
    parts: frozenset[str] | None = None
    timeouts: Mapping[str, float] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def with_catalogue(self, content: Any) -> Self:
        """Return these settings with those in the object `catalogue`. Raises `ValueError` for a newer format."""
        if content["format"] > CATALOGUE_FORMAT:
            raise ValueError(f"its format is {content['format']}, and this code reads up to {CATALOGUE_FORMAT}")
        return replace(
            self,
            task_functions=_sets(content["task_functions"]),
            task_queues=frozenset(content["task_queues"]),
            calling_queues=_sets(content["calling_queues"]),
            object_classes=dict(content["object_classes"]),
            flow_functions=dict(content["flow_functions"]),
            split_functions=frozenset(content["split_functions"]),
            task_parameters=json.dumps(content.get("task_parameters", {})),
            elsewhere=dict(content.get("elsewhere", {})),
        )

    def timeout_of(self, function: str) -> float:
        """Return how long the platform lets a request of a function run, in seconds."""
        return self.timeouts.get(function, self.timeout_seconds)

    def address_of(self, function: str) -> str:
        """Return the address at which queues and schedules call a function: the audience of their tokens."""
        return self._address(function, TASKS_SUFFIX if function in self.split_functions else "")

    def people_address_of(self, function: str) -> str:
        """Return the address of a split function's part for people. Before the split, its tasks had this address."""
        return self._address(function)

    def page_address_of(self, function: str) -> str:
        """Return the address at which people and other systems call a function."""
        return f"{self.base_url}{function.replace('_', '-')}" if self.base_url else self._address(function)

    def invocation_address_of(self, function: str) -> str:
        """Return the address at which another function calls this one.

        Calls of Cloud Run come from outside the project's networks. If the functions are open through a domain only
        (`base_url` is then not Google's address), Google refuses them at the functions' own addresses.
        """
        if function in self.elsewhere:  # no domain has it
            return self.people_address_of(function)
        own = f"https://{self.location}-{self.project}.cloudfunctions.net/"
        by_domain = self.base_url.startswith("https://") and not self.base_url.startswith(own)
        return self.page_address_of(function) if by_domain else self.people_address_of(function)

    def _address(self, function: str, suffix: str = "") -> str:
        if (other := self.elsewhere.get(function, "")).startswith("http://"):
            return other
        if other:
            return self.function_url.format(function=other)
        return self.function_url.format(function=function.replace("_", "-") + suffix)

    def account_of(self, queue: str) -> str:
        """Return the account as which a queue's tasks call, or an empty text if they call without a token."""
        return self.tasks_account.replace(QUEUE, queue_account(queue))

    @property
    def scheduler_accounts(self) -> frozenset[str]:
        """The account of schedules, if one is configured."""
        return frozenset(filter(None, [self.scheduler_account]))

    def task_callers(self, function: str) -> frozenset[str]:
        """Return the accounts that may call a function's tasks, which are those of its queues. It may be empty."""
        if self.tasks_account and QUEUE not in self.tasks_account:
            return frozenset((self.tasks_account,))
        return frozenset(filter(None, map(self.account_of, self.calling_queues.get(function, ()))))


def served_name() -> str:
    """Return the name of the function that the framework is loading, locally or in the cloud; empty outside of it."""
    return os.environ.get("FUNCTION_TARGET", "")


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Parse the settings. Each has a default for local use; Terraform sets them all. Raises `ValueError`."""
    get = environment.get
    return Settings(
        project=get("SIGNALBOX_PROJECT") or get("GOOGLE_CLOUD_PROJECT") or "demo-signalbox",
        location=get("SIGNALBOX_LOCATION", "us-central1"),
        database=get("SIGNALBOX_DATABASE", "(default)"),
        firestore_emulator=get("FIRESTORE_EMULATOR_HOST", ""),
        tasks_emulator=get("CLOUD_TASKS_EMULATOR_HOST", ""),
        function_url=get("SIGNALBOX_FUNCTION_URL", "http://127.0.0.1:8080/{function}"),
        queue_prefix=get("SIGNALBOX_QUEUE_PREFIX", ""),
        tasks_account=get("SIGNALBOX_TASKS_ACCOUNT", ""),
        triggers=json.loads(get("SIGNALBOX_TRIGGERS") or "{}"),
        task_functions=_names_by_name(get("SIGNALBOX_TASK_FUNCTIONS")),
        task_queues=_names(get("SIGNALBOX_TASK_QUEUES")),
        calling_queues=_names_by_name(get("SIGNALBOX_CALLING_QUEUES")) or {},
        scheduler_account=get("SIGNALBOX_SCHEDULER_ACCOUNT", ""),
        events_account=get("SIGNALBOX_EVENTS_ACCOUNT", ""),
        keys_url=get("SIGNALBOX_KEYS_URL") or GOOGLE_KEYS_URL,
        signatures_removed=_signatures(get("SIGNALBOX_SIGNATURES") or "checked") == "removed",
        in_cloud=bool(get("K_SERVICE")),  # Cloud Run sets it in every container
        indexes=_indexes(get("SIGNALBOX_INDEXES")),
        timeout_seconds=float(get("SIGNALBOX_TIMEOUT_SECONDS") or TIMEOUT_SECONDS),
        timeouts=json.loads(get("SIGNALBOX_TIMEOUTS") or "{}"),
        queue_backoffs=_backoffs(get("SIGNALBOX_QUEUE_BACKOFFS") or "{}"),
        queue_shards=json.loads(get("SIGNALBOX_QUEUE_SHARDS") or "{}"),
        origins=_names_by_name(get("SIGNALBOX_ORIGINS")) or {},
        auth=json.loads(get("SIGNALBOX_AUTH") or "{}"),
        user_keys_url=get("SIGNALBOX_USER_KEYS_URL") or FIREBASE_KEYS_URL,
        split_functions=_names(get("SIGNALBOX_SPLIT_FUNCTIONS")) or frozenset(),
        part=get("SIGNALBOX_PART", ""),
        open_functions=_names_by_name(get("SIGNALBOX_OPEN")) or {},
        tokens_unsigned=get("SIGNALBOX_USER_TOKENS") == "unsigned" and not get("K_SERVICE"),
        object_classes=json.loads(get("SIGNALBOX_OBJECT_CLASSES") or "{}"),
        flow_functions=json.loads(get("SIGNALBOX_FLOW_FUNCTIONS") or "{}"),
        revision=0 if get("SIGNALBOX_PART") == "people" else int(get("SIGNALBOX_REVISION") or 0),
        history=get("SIGNALBOX_HISTORY") or "[]",
        document_writers=_writers(get("SIGNALBOX_DOCUMENT_WRITERS") or ANYONE),
        catalogue=get("SIGNALBOX_CATALOGUE", ""),
        base_url=get("SIGNALBOX_BASE_URL", ""),
        callback_keys=get(CALLBACK_KEYS, ""),
        spans_endpoint=get(SPANS_ENDPOINT, ""),
        task_parameters=get("SIGNALBOX_TASK_PARAMETERS") or "{}",
        archives=get("SIGNALBOX_ARCHIVES") or ARCHIVES,
        storage_emulator=get("STORAGE_EMULATOR_HOST", ""),
        payloads=get("SIGNALBOX_PAYLOADS", ""),
        parts=_names(get("SIGNALBOX_PARTS")),
        elsewhere=json.loads(get("SIGNALBOX_ELSEWHERE") or "{}"),
    )


def _signatures(chosen: str) -> str:
    if chosen not in SIGNATURES:
        raise ValueError(f"SIGNALBOX_SIGNATURES says {chosen!r}; choose from {', '.join(SIGNATURES)}")
    return chosen


def _writers(chosen: str) -> str:
    if chosen not in WRITERS:
        raise ValueError(f"SIGNALBOX_DOCUMENT_WRITERS says {chosen!r}; choose from {', '.join(WRITERS)}")
    return chosen


def _names(listed: str | None) -> frozenset[str] | None:
    return None if listed is None else frozenset(json.loads(listed))


def _names_by_name(listed: str | None) -> Mapping[str, frozenset[str]] | None:
    return None if listed is None else _sets(json.loads(listed))


def _sets(listed: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(names) for name, names in listed.items()}


def _indexes(listed: str | None) -> tuple[Index, ...] | None:
    return (
        None if listed is None else tuple(parse(index["collection"], index["fields"]) for index in json.loads(listed))
    )


def _backoffs(listed: str) -> Mapping[str, Backoff]:
    return {name: Backoff(*numbers) for name, numbers in json.loads(listed).items()}


_bound: Settings | None = None


def settings() -> Settings:
    """Return this process's settings."""
    return _bound or _of_this_process()


@cache
def _of_this_process() -> Settings:
    chosen = from_environment(os.environ)
    declare(chosen)
    return chosen


def bind(chosen: Settings | None) -> Settings | None:
    """Use these settings from now on; None: those of the environment. For tests. Return the settings bound before."""
    global _bound
    before, _bound = _bound, chosen
    declare(chosen)
    return before


def declare(chosen: Settings | None) -> None:
    """Set the declarations that decisions read, as in these settings (None: as in the defaults)."""
    DECLARED["history"] = chosen.history if chosen else "[]"
    DECLARED["document_writers"] = chosen.document_writers if chosen else ANYONE
    DECLARED["task_parameters"] = chosen.task_parameters if chosen else "{}"
    DECLARED["payloads"] = (chosen.payloads if chosen else "") or PAYLOADS_OFF

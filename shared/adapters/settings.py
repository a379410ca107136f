"""Settings from the environment, read once, into one frozen object. The only home of ``os.environ``."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from shared.core.rules.indexes import Index, parse

EMBEDDED = "embedded"
GOOGLES_KEYS = "https://www.googleapis.com/oauth2/v1/certs"
SIGNATURES = ("checked", "removed")


@dataclass(frozen=True, slots=True)
class Settings:
    """Where a function finds its store and its queues.

    ``firestore_emulator`` and ``tasks_emulator`` are ``HOST:PORT``, empty in the cloud; the former may be ``embedded``:
    an in-memory store in this process, whose events go to ``events_url``. ``triggers`` says which: patterns of records
    (``documents/{key}``) by trigger. ``function_url`` is the address that queues call, with ``{function}``
    where a function's URL segment goes. ``task_functions`` holds the names of the tasks of each function that a call
    may name (an empty set: not known), ``task_queues`` the queues that may carry them; None: any. ``tasks_account`` and
    ``scheduler_account`` are who may call the routes of tasks and of schedules, ``keys_url`` has the keys (PEM by id)
    that their tokens are signed with; ``signatures_removed``: Cloud Run has checked the signature and put a text in its
    place.
    ``indexes`` are the composite indexes that are declared; None: Firestore knows.
    """

    project: str
    location: str
    database: str
    firestore_emulator: str
    tasks_emulator: str
    events_url: str
    function_url: str
    queue_prefix: str
    tasks_account: str
    triggers: Mapping[str, str] = field(default_factory=dict)
    task_functions: Mapping[str, frozenset[str]] | None = None
    task_queues: frozenset[str] | None = None
    scheduler_account: str = ""
    keys_url: str = GOOGLES_KEYS
    signatures_removed: bool = False
    in_cloud: bool = False
    indexes: tuple[Index, ...] | None = None

    def address_of(self, function: str) -> str:
        """Give the address at which queues and schedules call a function; their tokens are made for it."""
        return self.function_url.format(function=function.replace("_", "-"))


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the settings. Locally every one has a default; Terraform sets them all. Raises `ValueError`."""
    get = environment.get
    return Settings(
        project=get("SIGNALBOX_PROJECT") or get("GOOGLE_CLOUD_PROJECT") or "demo-signalbox",
        location=get("SIGNALBOX_LOCATION", "us-central1"),
        database=get("SIGNALBOX_DATABASE", "(default)"),
        firestore_emulator=get("FIRESTORE_EMULATOR_HOST", ""),
        tasks_emulator=get("CLOUD_TASKS_EMULATOR_HOST", ""),
        events_url=get("SIGNALBOX_EVENTS_URL", ""),
        function_url=get("SIGNALBOX_FUNCTION_URL", "http://127.0.0.1:8080/{function}"),
        queue_prefix=get("SIGNALBOX_QUEUE_PREFIX", ""),
        tasks_account=get("SIGNALBOX_TASKS_ACCOUNT", ""),
        triggers=json.loads(get("SIGNALBOX_TRIGGERS") or "{}"),
        task_functions=_names_by_name(get("SIGNALBOX_TASK_FUNCTIONS")),
        task_queues=_names(get("SIGNALBOX_TASK_QUEUES")),
        scheduler_account=get("SIGNALBOX_SCHEDULER_ACCOUNT", ""),
        keys_url=get("SIGNALBOX_KEYS_URL") or GOOGLES_KEYS,
        signatures_removed=_signatures(get("SIGNALBOX_SIGNATURES") or "checked") == "removed",
        in_cloud=bool(get("K_SERVICE")),  # Cloud Run sets it in every container
        indexes=_indexes(get("SIGNALBOX_INDEXES")),
    )


def _signatures(chosen: str) -> str:
    if chosen not in SIGNATURES:
        raise ValueError(f"SIGNALBOX_SIGNATURES says {chosen!r}; choose from {', '.join(SIGNATURES)}")
    return chosen


def _names(listed: str | None) -> frozenset[str] | None:
    return None if listed is None else frozenset(json.loads(listed))


def _names_by_name(listed: str | None) -> Mapping[str, frozenset[str]] | None:
    return None if listed is None else {name: frozenset(names) for name, names in json.loads(listed).items()}


def _indexes(listed: str | None) -> tuple[Index, ...] | None:
    return None if listed is None else tuple(parse(one["collection"], one["fields"]) for one in json.loads(listed))


@cache
def settings() -> Settings:
    """Give this process's settings."""
    return from_environment(os.environ)

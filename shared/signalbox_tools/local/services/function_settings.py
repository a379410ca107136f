"""The settings of a local stack's functions: derived from the catalogue, and as environment variables."""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import astuple, replace

from signalbox.adapters.settings import SPANS_ENDPOINT, Settings, from_environment
from signalbox.catalogue.reading import Catalogue, url_segment
from signalbox.core.effects import Backoff
from signalbox.core.records.composite_indexes import Index

CHOSEN = ("SIGNALBOX_PROJECT", "SIGNALBOX_LOCATION", SPANS_ENDPOINT)
"""The variables that the local stack reads from the environment. Others there may be meant for the cloud."""

NOT_SERVED = "http://127.0.0.1:9"
"""The address of a function of a database whose stack has not been started: nothing listens there."""

TASKS_ACCOUNT = "{queue}-queue@signalbox.invalid"
SCHEDULER_ACCOUNT = "scheduler@signalbox.invalid"


def settings_of(catalogue: Catalogue) -> Settings:
    """Return the settings that Terraform would give the functions, with accounts that do not exist."""
    chosen = from_environment({name: os.environ[name] for name in CHOSEN if name in os.environ})
    return replace(
        declared_by(catalogue, chosen),
        tokens_unsigned=True,
        tasks_account=TASKS_ACCOUNT,
        scheduler_account=SCHEDULER_ACCOUNT,
    )


def declared_by(catalogue: Catalogue, settings: Settings, others: Mapping[str, str] | None = None) -> Settings:
    """Return settings with all values that follow from a catalogue. A reload applies them to a running stack.

    These values include triggers and indexes, which in the cloud are resources. `others` has the base URLs of the
    stacks of other databases.
    """
    served = {database: f"{url}{{}}" for database, url in (others or {}).items()}
    return replace(
        settings,
        triggers={name: trigger.document for name, trigger in catalogue.triggers.items()},
        indexes=tuple(index.parsed for index in catalogue.indexes.values()),
        task_functions=catalogue.task_functions,
        task_parameters=json.dumps(catalogue.task_parameters),
        task_queues=catalogue.task_queues,
        calling_queues=catalogue.calling_queues,
        object_classes=catalogue.object_classes,
        flow_functions=catalogue.flow_functions,
        history=json.dumps([rule.to_json() for rule in catalogue.history_rules]),
        document_writers=catalogue.document_writers,
        queue_backoffs={
            name: Backoff(queue.backoff_min_seconds, queue.backoff_max_seconds, queue.doublings_max)
            for name, queue in catalogue.queues.items()
        },
        queue_shards=catalogue.queue_shards,
        timeouts={name: function.timeout_seconds for name, function in catalogue.functions.items()},
        origins=catalogue.origins,
        auth=catalogue.auth,
        open_functions=catalogue.open_functions,
        split_functions=catalogue.split_functions,
        parts=frozenset(catalogue.parts),
        elsewhere={
            name: served.get(database, NOT_SERVED).format(url_segment(name))
            for name, database in catalogue.elsewhere.items()
        },
    )


def environment_of(settings: Settings) -> dict[str, str]:
    """Write settings as `from_environment` reads them."""
    return {
        "SIGNALBOX_PROJECT": settings.project,
        "SIGNALBOX_LOCATION": settings.location,
        "SIGNALBOX_DATABASE": settings.database,
        "SIGNALBOX_QUEUE_PREFIX": settings.queue_prefix,
        "SIGNALBOX_TASKS_ACCOUNT": settings.tasks_account,
        "SIGNALBOX_SCHEDULER_ACCOUNT": settings.scheduler_account,
        "SIGNALBOX_KEYS_URL": settings.keys_url,
        "SIGNALBOX_SIGNATURES": "removed" if settings.signatures_removed else "checked",
        "SIGNALBOX_FUNCTION_URL": settings.function_url,
        "SIGNALBOX_TRIGGERS": json.dumps(dict(settings.triggers)),
        "SIGNALBOX_TASK_FUNCTIONS": json.dumps(_sorted_names(settings.task_functions or {})),
        "SIGNALBOX_TASK_PARAMETERS": settings.task_parameters,
        "SIGNALBOX_TASK_QUEUES": json.dumps(sorted(settings.task_queues or ())),
        "SIGNALBOX_CALLING_QUEUES": json.dumps(_sorted_names(settings.calling_queues)),
        "SIGNALBOX_OBJECT_CLASSES": json.dumps(dict(settings.object_classes)),
        "SIGNALBOX_FLOW_FUNCTIONS": json.dumps(dict(settings.flow_functions)),
        "SIGNALBOX_HISTORY": settings.history,
        "SIGNALBOX_DOCUMENT_WRITERS": settings.document_writers,
        "SIGNALBOX_INDEXES": json.dumps([_declared(index) for index in settings.indexes or ()]),
        "SIGNALBOX_QUEUE_BACKOFFS": json.dumps({name: astuple(each) for name, each in settings.queue_backoffs.items()}),
        "SIGNALBOX_QUEUE_SHARDS": json.dumps(dict(settings.queue_shards)),
        "SIGNALBOX_TIMEOUT_SECONDS": str(settings.timeout_seconds),
        "SIGNALBOX_TIMEOUTS": json.dumps(dict(settings.timeouts)),
        "SIGNALBOX_OPEN": json.dumps(_sorted_names(settings.open_functions)),
        "SIGNALBOX_AUTH": json.dumps(dict(settings.auth)),
        "SIGNALBOX_USER_KEYS_URL": settings.user_keys_url,
        "SIGNALBOX_USER_TOKENS": "unsigned" if settings.tokens_unsigned else "signed",
        "SIGNALBOX_SPLIT_FUNCTIONS": json.dumps(sorted(settings.split_functions)),
        "SIGNALBOX_CATALOGUE": settings.catalogue,
        "SIGNALBOX_ORIGINS": json.dumps(_sorted_names(settings.origins)),
        "FIRESTORE_EMULATOR_HOST": settings.firestore_emulator,
        "CLOUD_TASKS_EMULATOR_HOST": settings.tasks_emulator,
        **({"SIGNALBOX_ELSEWHERE": json.dumps(dict(settings.elsewhere))} if settings.elsewhere else {}),
        **({} if settings.parts is None else {"SIGNALBOX_PARTS": json.dumps(sorted(settings.parts))}),
        **({SPANS_ENDPOINT: settings.spans_endpoint} if settings.spans_endpoint else {}),
    }


def _sorted_names(names: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    return {name: sorted(listed) for name, listed in names.items()}


def _declared(index: Index) -> dict[str, object]:
    return {"collection": index.collection, "fields": [str(field) for field in index.fields]}

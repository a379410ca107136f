"""Settings as the environment that says them: what the local stack hands to its functions."""

import json

from shared.adapters.settings import Settings
from shared.rules.indexes import Index


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
        "SIGNALBOX_EVENTS_URL": settings.events_url,
        "SIGNALBOX_FUNCTION_URL": settings.function_url,
        "SIGNALBOX_TRIGGERS": json.dumps(dict(settings.triggers)),
        "SIGNALBOX_TASK_FUNCTIONS": json.dumps(sorted(settings.task_functions or ())),
        "SIGNALBOX_TASK_QUEUES": json.dumps(sorted(settings.task_queues or ())),
        "SIGNALBOX_INDEXES": json.dumps([_declared(index) for index in settings.indexes or ()]),
        "FIRESTORE_EMULATOR_HOST": settings.firestore_emulator,
        "CLOUD_TASKS_EMULATOR_HOST": settings.tasks_emulator,
    }


def _declared(index: Index) -> dict[str, object]:
    return {"collection": index.collection, "fields": [str(field) for field in index.fields]}

"""The names that subjects share are those of the catalogue."""

from signalbox.catalogue.reading import load
from signalbox.core import kit_names

TABLES = ("ACCOUNTS_OF_QUEUES", "QUEUES_OF_THE_KIT")


def named(*endings: str) -> set[str]:
    return {value for name, value in vars(kit_names).items() if name.isupper() and name.endswith(endings)}


def test_every_queue_is_in_the_catalogue() -> None:
    assert named("_QUEUE") == load().queues.keys() & named("_QUEUE") != set()


def test_every_function_of_the_kit_is_in_the_catalogue_and_called_by_its_queue() -> None:
    functions = load().functions
    called = {
        value
        for name, value in vars(kit_names).items()
        if name.isupper() and not name.endswith(("_QUEUE", "_TASK", "_PATH")) and name not in TABLES
    }
    called -= {
        kit_names.CALL_OBJECT,
        *kit_names.WRITERS,
        kit_names.WRITERS,
        kit_names.LINK_FAN_OUT,
        kit_names.CALLED_BY_QUEUES_ONLY,
    }
    called -= {
        kit_names.CALLBACK_KEYS,
        kit_names.CLOUD_STORAGE,
        kit_names.BUCKET,
        kit_names.ACT_ON_RUN,
        kit_names.RATE_DROP,
        kit_names.SCHEDULED,
        kit_names.BACKFILL,
    }
    assert called == kit_names.CALLED_BY_QUEUES_ONLY
    assert [name for name in sorted(called) if "queue" not in functions[name].invoked_by] == []
    assert {name: "".join(functions[name].queues or ()) for name in called} == kit_names.QUEUES_OF_THE_KIT

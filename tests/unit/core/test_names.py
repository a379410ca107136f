"""The names that subjects share are those of the catalogue."""

from signalbox.catalogue.reading import load
from signalbox.core import names


def named(*endings: str) -> set[str]:
    return {value for name, value in vars(names).items() if name.isupper() and name.endswith(endings)}


def test_every_queue_is_in_the_catalogue() -> None:
    assert named("_QUEUE") == load().queues.keys() & named("_QUEUE") != set()


def test_every_function_of_the_kit_is_in_the_catalogue_and_called_by_its_queue() -> None:
    functions = load().functions
    called = {
        value
        for name, value in vars(names).items()
        if name.isupper() and not name.endswith(("_QUEUE", "_TASK", "_PATH"))
    }
    called -= {names.CALL_OBJECT, *names.WRITERS, names.WRITERS, names.LINK_FAN_OUT, names.CALLED_BY_QUEUES_ONLY}
    called -= {names.CALLBACK_KEYS, names.CLOUD_STORAGE, names.BUCKET, names.ACT_ON_RUN, names.RATE_DROP}
    assert called == names.CALLED_BY_QUEUES_ONLY
    assert [name for name in sorted(called) if "queue" not in functions[name].invoked_by] == []

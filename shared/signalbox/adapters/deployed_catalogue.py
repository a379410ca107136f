"""The part of the catalogue that all functions of a deployment share, and the check of calls against it.

The shared settings list the deployment's parts: the tasks, objects and flows of each function, and the queues that call
it. If the lists were in each function's environment, a new function would change all environments. So they are one
object of Cloud Storage. The environment names the object, and contains only the function's own entries of the lists,
which decide who may call it.

A process reads the object when it first needs it, then at most once in `KEPT_SECONDS`, and earlier if a caller needs a
name that is not in its copy: the deployment may be newer. A copy is used for as long as a newer one cannot be read. The
deployment writes the object before the functions. Functions can only read it.

Tasks are checked again before they are enqueued (`undeliverable`): many come out of records, and any function of the
database may write those.

The calls in a request are checked before anything is stored. A call of an unknown function, task or queue would be
retried long after the caller's request, and one with an unknown argument would fail then. So the caller gets a 400
immediately.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

from signalbox.adapters.settings import Settings, declare, served_name, settings
from signalbox.core.calls import Call, check_arguments, parsed_parameters
from signalbox.core.effects import WAKE_UP_PATH, WAKE_UP_TASK, Effect
from signalbox.core.kit_names import (
    ACT_ON_RUN,
    CALL_OBJECT,
    FLOW_COMMAND_TASK,
    FLOW_RESULT_TASK,
    QUEUES_OF_THE_KIT,
)
from signalbox.core.limits import are_payloads_stored
from signalbox.core.problems import BadArgument, BadCall, Problem, Unavailable

FETCH_SECONDS_MAX = 5.0
"""Timeout of a request: a call that waits longer should be retried."""


OBJECT_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of the object. A function with ten tasks takes about 300 bytes."""


KEPT_SECONDS = 300.0
"""Lifetime of a copy. A copy expires because a flow may move to another function, and no unknown name would reveal
that."""


PAUSE_SECONDS = 10.0
"""Pause between two reads that unknown names cause, since any caller can invent names."""


PAUSE_AFTER_FAILURE_SECONDS = 1.0

METADATA_URL = "http://metadata.google.internal"
STORAGE_URL = "https://storage.googleapis.com"
TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105 (an address)

Has = Callable[[Settings], bool]
"""Return whether the settings contain the entries that a caller needs."""


def catalogue_settings(own: Settings, has: Has) -> Settings:
    """Return a process's `own` settings with the settings that all functions share.

    If `has` returns False for the copy of this process, the object is read again. Raises `Unavailable` if the object
    has never been read and cannot be read now.
    """
    return _copy_of(own.catalogue).settings(own, has) if own.catalogue else own


Fetch = Callable[[str], Any]


class CatalogueObject:
    """The copy of an object, ``BUCKET/NAME``. Thread-safe: one thread reads it, the others wait."""

    def __init__(self, name: str, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._fetch = fetch or fetched
        self._clock = clock
        self._reading = threading.Lock()
        self._copy: Settings | None = None
        self._stale_at = self._open_at = float("-inf")
        self._is_current = False

    @property
    def is_current(self) -> bool:
        """Whether the last read succeeded. Otherwise a name that the copy lacks may have been deployed since."""
        return self._is_current

    def settings(self, own: Settings, has: Has) -> Settings:
        """Return `own` with the object's settings, as `catalogue_settings` does."""
        with self._reading:
            now = self._clock()
            if now >= self._open_at and (self._copy is None or now >= self._stale_at or not has(self._copy)):
                self._read(own, now)
            if self._copy is None:
                raise Unavailable("The list of deployed functions cannot be read. If this persists, deploy again.")
            return self._copy

    def _read(self, own: Settings, now: float) -> None:
        try:
            self._copy = own.with_catalogue(self._fetch(self._name))
            declare(self._copy)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            self._open_at, self._is_current = now + PAUSE_AFTER_FAILURE_SECONDS, False
            if self._copy is None:
                raise Unavailable(
                    f"The list of deployed functions ({self._name} in Cloud Storage) cannot be read: {error}. "
                    "If this persists, deploy again."
                ) from error
        else:
            self._stale_at, self._open_at, self._is_current = now + KEPT_SECONDS, now + PAUSE_SECONDS, True


def fetched(name: str) -> Any:
    """Fetch an object as this instance's account. Raises `OSError` or `ValueError`."""
    import http.client  # with the first read: an instance that needs none starts sooner
    import urllib.parse

    bucket, _, path = name.partition("/")
    address = f"{STORAGE_URL}/storage/v1/b/{bucket}/o/{urllib.parse.quote(path, safe='')}?alt=media"
    try:
        token = _get(METADATA_URL + TOKEN_PATH, {"Metadata-Flavor": "Google"})["access_token"]
        return _get(address, {"Authorization": f"Bearer {token}"})
    except http.client.HTTPException as error:
        raise OSError(f"no whole response: {error!r}") from error


def _get(url: str, headers: dict[str, str]) -> Any:
    import urllib.request

    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (the platform's addresses)
    with urllib.request.urlopen(request, timeout=FETCH_SECONDS_MAX) as answer:  # noqa: S310 (as above)
        return json.loads(answer.read(OBJECT_BYTES_MAX))


@cache
def _copy_of(name: str) -> CatalogueObject:
    return CatalogueObject(name)


def check_deployed(**calls: Call | None) -> None:
    """Check the calls of a request, passed by the names of their fields. Raises as `deployed` does."""
    for field, call in calls.items():
        if call is not None:
            deployed(call, field)


def is_declared(function: str, task: str, arguments: Collection[str]) -> bool:
    """Return whether the catalogue has a task that is known to take these arguments. Raises `Unavailable`.

    The deployment writes the catalogue before its functions, so a function may not have the task yet.
    """

    def has(known: Settings) -> bool:
        parameters = parsed_parameters(known.task_parameters).get(function, {}).get(task)
        named = {name.removesuffix("?") for name in parameters or ()}
        return task in (known.task_functions or {}).get(function, ()) and set(arguments) <= named

    return has(catalogue_settings(settings(), has))


def is_called_by_queues(function: str) -> bool:
    """Return whether queues call a function in this deployment. Raises `Unavailable`."""

    def has(known: Settings) -> bool:
        return known.task_functions is None or function in known.calling_queues  # without a catalogue, as in a test

    return has(catalogue_settings(settings(), has))


def check_is_call(value: object, field: str) -> None:
    """Raise `BadCall` for a value of a user's code that is not a call, such as a task that has not been called."""
    if not isinstance(value, Call):
        detail = f"`{field}` must be a call of a task, such as `printed.call(…)`, not {value!r:.80}."
        raise BadCall(detail, field=field)


def check_deployed_units(**calls: Call | None) -> None:
    """Check the calls of units, which have only a part of their arguments. Raises `BadCall` or `Unavailable`."""
    for field, call in calls.items():
        if call is not None:
            _check(call, field, _refusal)


def read_parameters() -> None:
    """Read the arguments of tasks, which all functions share, unless this process has them. Raises `Unavailable`."""
    catalogue_settings(settings(), lambda _: True)


def deployed(call: Call, field: str = "continuation", *, may_be_large: bool = False) -> Call:
    """Return the call if this deployment can deliver it and its task is not known to refuse the arguments.

    Raises `BadCall`, which lists the names in the catalogue, `BadArgument`, or `Unavailable` if the catalogue cannot be
    read; and `TooLarge` for arguments that do not fit into a task, unless they are stored (`may_be_large`). `field` is
    the call's place, empty for the whole body.
    """
    check_is_call(call, field)
    if not may_be_large and are_payloads_stored():  # otherwise no call is larger
        call.checked(field)
    return _check(call, field, lambda known, call, at: _refusal(known, call, at) or _wrong_arguments(known, call, at))


def _check(call: Call, field: str, refusal: Callable[[Settings, Call, str], Problem | None]) -> Call:
    at = f"{field}." if field else ""
    chosen = catalogue_settings(settings(), lambda known: refusal(known, call, at) is None)
    if problem := refusal(chosen, call, at):
        raise problem
    return call


def _wrong_arguments(chosen: Settings, call: Call, at: str) -> BadArgument | None:
    try:
        check_arguments(parsed_parameters(chosen.task_parameters), call, f"{at}payload")
    except BadArgument as wrong:
        return wrong
    return None


def _refusal(chosen: Settings, call: Call, at: str) -> BadCall | None:
    if call.function in chosen.elsewhere:
        return BadCall(
            f"{call.function} has another database, so no task of it can be enqueued here: call one of its routes with "
            "`invoke`.",
            field=f"{at}function",
        )
    functions = chosen.task_functions
    tasks = functions.get(call.function) if functions is not None else None
    queues = chosen.calling_queues.get(call.function, chosen.task_queues)
    return (
        _unless_listed("function that takes tasks", call.function, functions, f"{at}function")
        or _unless_listed(f"task of {call.function}", call.task, tasks or None, f"{at}task")
        or _unless_listed(f"queue for tasks of {call.function}", call.queue, queues, f"{at}queue")
    )


def _unless_listed(what: str, name: str, listed: Collection[str] | None, field: str) -> BadCall | None:
    if listed is None or name in listed:
        return None
    known = ", ".join(sorted(listed)) or "none"
    return BadCall(f"The catalogue has no {what} named {name!r}. Known: {known}.", field=field)


# --- tasks that come out of records ---


REASON_LETTERS_MAX = 500
"""Characters of a reason, which quotes names out of a record."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")

_TASK = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

_INTERNAL_TASKS = {CALL_OBJECT, FLOW_COMMAND_TASK, FLOW_RESULT_TASK, ACT_ON_RUN}


def deliverable(own: Settings, effects: Sequence[Effect]) -> tuple[Settings, dict[str, str]]:
    """Return settings that have the addresses of all effects, and why effects cannot be delivered, by their names.

    The catalogue object is read only if an effect is for another user's function than the one that this process
    serves, or for a task or queue that this function has not in this process, which may be of an older deployment.
    Raises `Unavailable` if the object cannot be read and its copy lacks an effect's function, task or queue.
    """
    users = [effect for effect in effects if effect.function not in QUEUES_OF_THE_KIT]
    others = [effect for effect in users if effect.function != served_name() or undeliverable(own, effect)]
    chosen = (
        catalogue_settings(own, lambda known: not any(undeliverable(known, each) for each in others)) if others else own
    )
    refused = {
        effect.name: reason[:REASON_LETTERS_MAX] for effect in effects if (reason := undeliverable(chosen, effect))
    }
    if refused and others and own.catalogue and not _copy_of(own.catalogue).is_current:
        raise Unavailable(f"The list of deployed functions cannot be read, and {min(refused.values())}")
    return chosen, refused


def undeliverable(known: Settings, effect: Effect) -> str:
    """Return why the catalogue's functions and queues exclude a task, or an empty text if they do not.

    A function's address is derived from its name, so a name of other characters could lead to another host. The
    handlers of the kit's own functions check the names of their tasks: an unknown one may be a newer release's.
    """
    if not isinstance(effect.function, str) or not _NAME.fullmatch(effect.function):
        return f"{effect.function!r} is not the name of a function"
    if effect.function in QUEUES_OF_THE_KIT:
        queues: Collection[str] | None = (QUEUES_OF_THE_KIT[effect.function],)
    elif known.task_functions is None and effect.function not in known.calling_queues:
        return ""  # without a catalogue, as in a test
    else:
        queues = known.calling_queues.get(effect.function, ())
    if not queues:
        return f"the catalogue has no function {effect.function!r} that queues call"
    if effect.queue not in queues:
        return f"the queue {effect.queue!r} does not call {effect.function}"
    if not _has_task(known, effect):
        return f"{effect.function} has no task {effect.task!r} at {effect.path!r}"
    return ""


def _has_task(known: Settings, effect: Effect) -> bool:
    if effect.function in QUEUES_OF_THE_KIT:
        return effect.path == "/"
    if effect.path == WAKE_UP_PATH:
        return effect.task == WAKE_UP_TASK
    tasks = (known.task_functions or {}).get(effect.function)
    if not _TASK.fullmatch(effect.task):
        return False
    return effect.path == f"/tasks/{effect.task}" and (not tasks or effect.task in {*tasks, *_INTERNAL_TASKS})

"""The handlers of `on_document`: the events that each takes, and the code of its task."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

from signalbox.adapters import runtime
from signalbox.adapters.coroutines import result_of
from signalbox.adapters.deployed_catalogue import deployed
from signalbox.core.codec.annotations import hints_of
from signalbox.core.document_patterns import EACH, EVERYTHING, WRITTEN, DocumentFilter, DocumentPattern, InOrder, Kind
from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import OtherBody, Problem, Unavailable
from signalbox.tasks.api import Task
from signalbox.tasks.model.attempts import TaskContext
from signalbox.tasks.requests.enqueues import EnqueueRequest
from signalbox.tasks.service import enqueues

if TYPE_CHECKING:
    from signalbox.adapters.http.event_deliveries import ReceivedEvent

BY_PLACE = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
BY_NAME = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
"""The kinds of parameters that are passed by their place, and by their name."""


EVENT_MARGIN_BYTES = 8 * 1024
"""Bytes of a task's payload for the parts of an event other than its data: a path of at most 6 KiB, and an id."""


class PatternChanged(Problem):
    status = 409
    title = "The pattern of the handler has changed since the event"


@dataclass(frozen=True, slots=True)
class DocumentHandler:
    """A handler of `on_document`: its pattern, the kind of events, its task, its filter, and the order of events."""

    pattern: DocumentPattern
    on: Kind
    task: Task[..., Any]
    in_order: InOrder
    chosen: DocumentFilter = EVERYTHING

    def takes(self, path: str, kind: str) -> bool:
        """Return whether an event is for the handler. An event of unknown kind is, since the trigger selected it."""
        return self.pattern.match(path) is not None and self.on in (WRITTEN, kind or self.on)

    def selects(self, event: "ReceivedEvent") -> bool:
        """Return whether the handler's filter selects an event, whose data is decoded only if the filter needs it."""
        if not event.path.rpartition("/")[2].startswith(self.chosen.prefix):
            return False
        return not self.chosen.needs_data or self.chosen.selects(*event.sides())

    @property
    def waits(self) -> bool:
        """Whether an event waits for the one before it: this handler receives that one, too, and leaves none out."""
        return self.in_order == EACH and self.on == WRITTEN and not self.chosen.needs_data

    def place_before(self, event: "ReceivedEvent") -> int | None:
        """Return the place of the event before, if this event waits for it."""
        if not self.waits:
            return None
        from signalbox.document_events.machine import place_of  # only for functions with such a handler

        return place_of(event.before_written_at, None)


def receive(function: str, handlers: Mapping[str, DocumentHandler], name: str, event: "ReceivedEvent") -> None:
    """Enqueue the task of an event, once. Raises `Unavailable` if the function's code has no such handler."""
    handler = handlers.get(name)
    if handler is None:
        raise Unavailable(f"{function} has no handler {name!r} of documents; a newer deployment may have it")
    if not handler.takes(event.path, event.kind) or not handler.selects(event):
        return
    arguments: dict[str, Any] = event.arguments(CORE_LIMITS.task_bytes_max - EVENT_MARGIN_BYTES)
    if handler.in_order:
        from signalbox.document_events.machine import place_of  # only for functions with such a handler

        arguments["place"] = place_of(event.written_at, event.before_written_at)
        if (after := handler.place_before(event)) is not None:
            arguments["after"] = after
    try:
        call = deployed(handler.task.call(**arguments), "call", may_be_large=True)
        id_ = name_of("event", function, name, event.id)
        enqueues.by_id(runtime.ports(), EnqueueRequest(call, id_, by_event=True))
    except OtherBody:
        return  # an earlier delivery has enqueued it, perhaps in the encoding of another release
    except Problem as problem:
        raise Unavailable(f"the event's task is not enqueued: {problem.detail}") from problem


def task_code(handler: Callable[..., Any], pattern: DocumentPattern) -> Callable[..., None]:
    """Return the code of the task that calls a handler with the event from the task's arguments. Raises `TypeError`."""
    from signalbox.adapters.http.event_deliveries import (  # its protobuf is only for such functions
        event_of_arguments,
        without_internal,
    )

    if not handler.__name__.isidentifier():
        raise TypeError(f"the handler of {pattern.text!r} has no name, which its task needs: write a def")
    context_name = _check_parameters(handler, pattern)

    @wraps(handler, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def run(
        event: str,
        path: str,
        data: str,
        context: TaskContext,
        kind: str = "",
        place: int | None = None,  # noqa: ARG001  `Function._in_order` reads it before the code starts
        after: int | None = None,  # noqa: ARG001  as is this one
    ) -> None:
        parts = pattern.match(path)
        if parts is None:
            raise PatternChanged(
                f"{path} was enqueued for {run.__name__}, whose pattern is {pattern.text!r} now: "
                "handle the event by hand, or retry it with code that has the pattern of its time."
            )
        given = {context_name: context} if context_name else {}
        received = without_internal(event_of_arguments(event, path, data, kind))
        result_of(handler(received, **parts, **given), "handler", run.__name__, context.seconds_left)

    del run.__wrapped__  # its parameters are not those of the task
    return run


def _check_parameters(handler: Callable[..., Any], pattern: DocumentPattern) -> str:
    """Return the name of the parameter that is a `TaskContext`, if any. Raises `TypeError` with the form to write."""
    declared = inspect.signature(handler).parameters
    hints, parameters = hints_of(handler, handler.__name__), list(declared)
    contexts = [name for name in parameters[1:] if hints.get(name) is TaskContext]
    parts = [name for name in parameters[1:] if name not in contexts]
    kinds = [each.kind for each in declared.values()]
    can_be_passed = set(kinds[:1]) <= BY_PLACE and set(kinds[1:]) <= BY_NAME
    if not parameters or sorted(parts) != sorted(pattern.names) or len(contexts) > 1 or not can_be_passed:
        wanted = ", ".join(["event: DocumentEvent", *(f"{name}: str" for name in pattern.names)])
        raise TypeError(
            f"{handler.__name__} handles {pattern.text!r}: write def {handler.__name__}({wanted}), with "
            "context: TaskContext at the end if it needs one"
        )
    return "".join(contexts)

"""What a user's function imports: HTTP, tasks, semaphores, batches, documents, objects, flows, standings.

    from shared.kit import Function, Lease, semaphore

    app = Function("philosophers")

    @app.http("POST")                              # POST {base}philosophers
    def dine(request): ...

    @app.task                                      # POST .../philosophers/tasks/eat, called by Cloud Tasks
    def eat(lease: Lease, seat: int) -> None: ...

    philosophers = app.entry_point()               # folder = entry point = the catalogue's name

    semaphore("fork-3").wait(eat.call(seat=3))     # runs when a permit is granted

A task is delivered at least once, and two deliveries may overlap. A `Problem` is a permanent error and is not retried;
any other exception is retried, until the code was started `attempts_max` times. A second delivery repeats the calls of
the first and adds none, as long as the code makes the same calls, in whatever order.

A name is loaded when it is first imported, so that a function starts with no more than it uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared.adapters.http.routes import Request, Response
    from shared.core.operations.ports import DocumentEvent
    from shared.core.rules.problems import LeaseEnded, NotFound, NotReady, Problem, Unavailable
    from shared.core.rules.task_context import Completion, Lease, Outcome, SectionRun, TaskContext, Unit
    from shared.core.rules.users import User
    from shared.kit.batches import SubBatch, batch, sub_batch
    from shared.kit.calls import Call
    from shared.kit.critical_sections import critical_section
    from shared.kit.document_collection import documents
    from shared.kit.durable_objects import Object, Placeholder, later, objects, send
    from shared.kit.flow_runs import flow, flows
    from shared.kit.functions import Function, Task
    from shared.kit.resources import add_resource, resource
    from shared.kit.semaphores import semaphore
    from shared.kit.transactions import Transaction, transaction
    from shared.kit.yokes_and_standings import standing_changed, standings, yokes
    from shared.objects.rules.classes import read_only
    from shared.resources.rules.fields import Hidden, ReadOnly, RefersTo

__all__ = [
    "Call",
    "Completion",
    "DocumentEvent",
    "Function",
    "Hidden",
    "Lease",
    "LeaseEnded",
    "NotFound",
    "NotReady",
    "Object",
    "Outcome",
    "Placeholder",
    "Problem",
    "ReadOnly",
    "RefersTo",
    "Request",
    "Response",
    "SectionRun",
    "SubBatch",
    "Task",
    "TaskContext",
    "Transaction",
    "Unavailable",
    "Unit",
    "User",
    "add_resource",
    "batch",
    "critical_section",
    "documents",
    "flow",
    "flows",
    "later",
    "objects",
    "read_only",
    "resource",
    "semaphore",
    "send",
    "standing_changed",
    "standings",
    "sub_batch",
    "transaction",
    "yokes",
]

_MODULES = {
    "Call": "shared.kit.calls",
    "Completion": "shared.core.rules.task_context",
    "DocumentEvent": "shared.core.operations.ports",
    "Function": "shared.kit.functions",
    "Hidden": "shared.resources.rules.fields",
    "Lease": "shared.core.rules.task_context",
    "LeaseEnded": "shared.core.rules.problems",
    "NotFound": "shared.core.rules.problems",
    "NotReady": "shared.core.rules.problems",
    "Object": "shared.kit.durable_objects",
    "Outcome": "shared.core.rules.task_context",
    "Placeholder": "shared.kit.durable_objects",
    "Problem": "shared.core.rules.problems",
    "ReadOnly": "shared.resources.rules.fields",
    "RefersTo": "shared.resources.rules.fields",
    "Request": "shared.adapters.http.routes",
    "Response": "shared.adapters.http.routes",
    "SectionRun": "shared.core.rules.task_context",
    "SubBatch": "shared.kit.batches",
    "Task": "shared.kit.functions",
    "TaskContext": "shared.core.rules.task_context",
    "Transaction": "shared.kit.transactions",
    "Unavailable": "shared.core.rules.problems",
    "Unit": "shared.core.rules.task_context",
    "User": "shared.core.rules.users",
    "add_resource": "shared.kit.resources",
    "batch": "shared.kit.batches",
    "critical_section": "shared.kit.critical_sections",
    "documents": "shared.kit.document_collection",
    "flow": "shared.kit.flow_runs",
    "flows": "shared.kit.flow_runs",
    "later": "shared.kit.durable_objects",
    "objects": "shared.kit.durable_objects",
    "read_only": "shared.objects.rules.classes",
    "resource": "shared.kit.resources",
    "semaphore": "shared.kit.semaphores",
    "send": "shared.kit.durable_objects",
    "standing_changed": "shared.kit.yokes_and_standings",
    "standings": "shared.kit.yokes_and_standings",
    "sub_batch": "shared.kit.batches",
    "transaction": "shared.kit.transactions",
    "yokes": "shared.kit.yokes_and_standings",
}

if not TYPE_CHECKING:  # else a type checker would take every name for one that exists

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)

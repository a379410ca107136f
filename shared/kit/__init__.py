"""What a user's function imports: HTTP, tasks, semaphores, critical sections, batches, documents, objects, standings.

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
"""

from shared.adapters.http.routes import Request, Response
from shared.core.operations.ports import DocumentEvent
from shared.core.rules.problems import LeaseEnded, NotFound, NotReady, Problem, Unavailable
from shared.core.rules.task_context import Completion, Lease, Outcome, SectionRun, TaskContext, Unit
from shared.core.rules.users import User
from shared.kit.batches import SubBatch, batch, sub_batch
from shared.kit.calls import Call
from shared.kit.critical_sections import critical_section
from shared.kit.documents import documents
from shared.kit.functions import Function, Task
from shared.kit.objects import Object, Placeholder, later, objects, send
from shared.kit.resources import add_resource, resource
from shared.kit.semaphores import semaphore
from shared.kit.standings import standing_changed, standings, yokes
from shared.kit.transactions import Transaction, transaction
from shared.objects.rules.classes import read_only
from shared.resources.rules.models import Hidden, ReadOnly, RefersTo

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

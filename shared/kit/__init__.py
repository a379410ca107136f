"""What a function of your own imports: its addresses for people, its tasks for queues, semaphores and batches.

    from shared.kit import Function, Lease, semaphore

    app = Function("philosophers")

    @app.http("POST")                              # {base}philosophers, for people
    def dine(request): ...

    @app.task                                      # POST .../philosophers/tasks/eat, from a queue
    def eat(lease: Lease, seat: int) -> None: ...

    philosophers = app.entry_point()               # what the catalogue names: folder = entry point = name

    semaphore("fork-3").wait(eat.call(seat=3))     # runs when the permit is ours

A task may be delivered twice, also at the same time. It says no by raising a `Problem` (never asked again); whatever
else it raises brings it again, until its `attempts_max` are used up.
"""

from shared.adapters.http.routes import Request, Response
from shared.core.operations.ports import DocumentEvent
from shared.core.rules.calls import Call
from shared.core.rules.problems import NotFound, Problem, Unavailable
from shared.core.rules.task_context import Completion, Lease, Unit
from shared.kit.batches import SubBatch, sub_batch
from shared.kit.documents import batch, documents, semaphore
from shared.kit.functions import Function, Task

__all__ = [
    "Call",
    "Completion",
    "DocumentEvent",
    "Function",
    "Lease",
    "NotFound",
    "Problem",
    "Request",
    "Response",
    "SubBatch",
    "Task",
    "Unavailable",
    "Unit",
    "batch",
    "documents",
    "semaphore",
    "sub_batch",
]

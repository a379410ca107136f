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

from shared.adapters.web.http import Answer, Request
from shared.front.batches import SubBatch, sub_batch
from shared.front.functions import Function, Task
from shared.front.nouns import batch, documents, semaphore
from shared.operations.ports import DocumentEvent
from shared.rules.calls import Call
from shared.rules.occasions import Completion, Lease, Unit
from shared.rules.problems import NotFound, Problem, Unavailable

__all__ = [
    "Answer",
    "Call",
    "Completion",
    "DocumentEvent",
    "Function",
    "Lease",
    "NotFound",
    "Problem",
    "Request",
    "SubBatch",
    "Task",
    "Unavailable",
    "Unit",
    "batch",
    "documents",
    "semaphore",
    "sub_batch",
]

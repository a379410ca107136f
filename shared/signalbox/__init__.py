"""The names that a user's function imports: HTTP, tasks, semaphores, batches, documents, objects, flows, standings.

    from signalbox import Function, Lease, semaphore

    app = Function("philosophers")

    @app.http("POST")                              # POST {base}philosophers
    def dine(request): ...

    @app.task                                      # POST .../philosophers/tasks/eat, called by Cloud Tasks
    def eat(lease: Lease, seat: int) -> None: ...

    philosophers = app.entry_point()               # folder = entry point = the catalogue's name

    semaphore("fork-3").wait(eat.call(seat=3))     # runs when a permit is granted

A task is delivered at least once, and two deliveries may overlap. A `Problem` is a permanent error and is not retried;
any other exception is retried until the code has been started `attempts_max` times. A second delivery repeats the calls
of the first and adds none, provided that the code makes the same calls, in any order.

Each name is loaded when it is first imported, so a function loads only what it uses. The imports below are the one
list of public names: type checkers, the packager and `signalbox.core.lazy_names` read them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from signalbox.adapters.http.invocations import invoke as invoke
    from signalbox.adapters.http.open_function_access import Access as Access
    from signalbox.adapters.http.responses import Response as Response
    from signalbox.adapters.http.routes import Request as Request
    from signalbox.adapters.row_files import read_rows as read_rows
    from signalbox.adapters.row_files import write_rows as write_rows
    from signalbox.batches.api import SubBatch as SubBatch
    from signalbox.batches.api import batch as batch
    from signalbox.batches.api import sub_batch as sub_batch
    from signalbox.batches.model.units import Completion as Completion
    from signalbox.batches.model.units import Unit as Unit
    from signalbox.core.codec.annotations import parse as parse
    from signalbox.core.failure_notices import FailureNotice as FailureNotice
    from signalbox.core.ports import DocumentEvent as DocumentEvent
    from signalbox.core.problems import LeaseEnded as LeaseEnded
    from signalbox.core.problems import NotFound as NotFound
    from signalbox.core.problems import Problem as Problem
    from signalbox.core.problems import Unavailable as Unavailable
    from signalbox.core.token_claims import User as User
    from signalbox.critical_sections.api import critical_section as critical_section
    from signalbox.critical_sections.model import SectionRun as SectionRun
    from signalbox.documents.api import Transaction as Transaction
    from signalbox.documents.api import documents as documents
    from signalbox.documents.api import transaction as transaction
    from signalbox.flows.api import flow as flow
    from signalbox.flows.api.runs import flows as flows
    from signalbox.function.resource_function import resource as resource
    from signalbox.function.user_function import Function as Function
    from signalbox.mailboxes.model.outcomes import Outcome as Outcome
    from signalbox.objects.api import Object as Object
    from signalbox.objects.api import Placeholder as Placeholder
    from signalbox.objects.api import later as later
    from signalbox.objects.api import objects as objects
    from signalbox.objects.api import send as send
    from signalbox.objects.machine.classes import read_only as read_only
    from signalbox.objects.problems import NotReady as NotReady
    from signalbox.rates.api import rate as rate
    from signalbox.rates.model import Acquired as Acquired
    from signalbox.resources.api import add_resource as add_resource
    from signalbox.resources.model.fields import Hidden as Hidden
    from signalbox.resources.model.fields import ReadOnly as ReadOnly
    from signalbox.resources.model.fields import RefersTo as RefersTo
    from signalbox.semaphores.api import semaphore as semaphore
    from signalbox.semaphores.model.leases import Lease as Lease
    from signalbox.standings.api import standing_changed as standing_changed
    from signalbox.standings.api import standings as standings
    from signalbox.standings.api import yokes as yokes
    from signalbox.tasks.api import Call as Call
    from signalbox.tasks.api import Task as Task
    from signalbox.tasks.model.attempts import TaskContext as TaskContext

from signalbox.core.lazy_names import make_lazy

make_lazy(__name__)

"""A client of a deployment, or of the local stack, for programs outside of it.

    from signalbox.client import Client, call

    with Client("https://us-central1-my-project.cloudfunctions.net/") as client:
        client.documents.put("ann", {"type": "Person", "name": "Ann"})
        with client.semaphore("printer").lease(timeout_seconds=60) as lease:  # renewed until the block ends
            print_page(fencing_token=lease.token)
        run = client.flow("shop", "purchase").start("order-7", order="7", amount=12)
        receipt = run.result(timeout_seconds=3600)

`AsyncClient` has the same names; each call is awaited. Both need httpx, and google-auth for a deployment:
``pip install signalbox[client]``.

A call is repeated until it has an answer or ``retry_seconds`` have passed. That is safe: each call that is not
repeatable by itself carries an ``Idempotency-Key``. An answer that is a problem raises an `ApiError` with its fields.
The modules of ``blocking`` are generated from those of ``aio`` by ``make docs``.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from signalbox.client.aio.public_client import AsyncClient as AsyncClient
    from signalbox.client.blocking.public_client import Client as Client
    from signalbox.client.model import Document as Document
    from signalbox.client.model import LoadReport as LoadReport
    from signalbox.client.problems import ApiError as ApiError
    from signalbox.client.problems import CallFailed as CallFailed
    from signalbox.client.problems import Conflict as Conflict
    from signalbox.client.problems import LeaseLost as LeaseLost
    from signalbox.client.problems import NotFound as NotFound
    from signalbox.client.problems import PreconditionFailed as PreconditionFailed
    from signalbox.client.problems import Unavailable as Unavailable
    from signalbox.client.requests import call as call

from signalbox.core.lazy_names import make_lazy

make_lazy(__name__, extra="client")

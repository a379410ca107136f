"""A test of a user's function, as a user writes it. The pages quote it."""

from signalbox import Function, Lease, Request, Response, documents, semaphore
from signalbox.testing import Faults, Harness
from signalbox.testing.fixtures import harness as harness

app = Function("printers")


@app.http("POST", "/{page}")
def submit(request: Request, page: str) -> Response:
    semaphore("printer").ensure(permits=1)
    semaphore("printer").wait(print_page.call(page=page), id=page, release_on_return=True)
    return Response(202, {"page": page})


@app.task
def print_page(lease: Lease, page: str) -> None:
    documents.put(f"page-{page}", {"printed": True, "token": lease.token})


def test_a_page_is_printed_once_although_everything_happens_twice(harness: Harness) -> None:
    harness.add(app)
    assert harness.post("printers/7").status == 202
    assert harness.post("printers/7").status == 202  # the caller did not see the first answer
    harness.run(Faults(duplicate=1))
    assert documents.get("page-7")["printed"]
    assert semaphore("printer").acquire() is not None  # the permit is back
    assert len(harness.ids("documents")) == 1

"""A function for a test that kills processes: it writes versions of a draft, and copies each in their order."""

import time

from signalbox import DocumentEvent, Function, Request, Response
from signalbox.adapters import runtime
from signalbox.core.ports import Put

HANDLING_SECONDS = 0.1

app = Function("copying")


@app.http("POST", "/{id}/{first}/{last}")
def write(_: Request, id: str, first: str, last: str) -> Response:  # noqa: A002  as the path names it
    for number in range(int(first), int(last) + 1):
        runtime.ports().store.commit([Put(f"drafts/{id}", {"number": number})])
    return Response(202)


@app.http("GET", "/{id}")
def show(_: Request, id: str) -> Response:  # noqa: A002  as the path names it
    return Response(200, {"copied": _copied(id)})


@app.on_document("drafts/{id}", in_order=True)
def copied(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the pattern names it
    """Append the number of a version to those that were copied, slowly."""
    before = _copied(id)
    time.sleep(HANDLING_SECONDS)
    assert event.after is not None, "drafts are not deleted"
    runtime.ports().store.commit([Put(f"copies/{id}", {"numbers": [*before, event.after["number"]]})])


def _copied(id_: str) -> list[int]:
    [read] = runtime.ports().store.read(f"copies/{id_}")
    numbers: list[int] = (read.data or {}).get("numbers", [])
    return numbers


copying = app.entry_point()

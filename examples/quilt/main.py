"""A quilt of n × n squares: a batch with a unit for each square, and one completion task when all are painted.

POST {base}quilt {"quilt": "q1", "side": 8}      202; the batch has the quilt's name. With "torn": 3, three squares fail
GET  {base}quilt/q1                              the page that shows it while it is painted
GET  {base}batches/q1                            its state and counts
GET  {base}batches/q1/units                      each square: {"row", "column", "color"}
"""

import random
import uuid
from pathlib import Path
from typing import Any

from signalbox import Completion, Function, Problem, Request, Response, TaskContext, Unit, batch, documents

SIDE_MAX = 100
PAGE = (Path(__file__).parent / "page.html").read_bytes()
HTML = {"Content-Type": "text/html; charset=utf-8"}

app = Function("quilt")


class BadQuilt(Problem):
    title = "`quilt` and `side` are required"


class Torn(Problem):
    status = 409
    title = "The square is torn"


@app.http("POST")
def sew(request: Request) -> Response:
    quilt, side, torn = _parsed(request.json_object())
    squares = [paint.call(row=row, column=column) for row in range(side) for column in range(side)]
    for at in random.Random(quilt).sample(range(len(squares)), min(torn, len(squares))):  # noqa: S311  no secret
        squares[at] = paint.call(row=at // side, column=at % side, torn=True)
    batch(quilt).populate(squares, on_complete=announce.call(quilt=quilt))
    return Response(202, {"batch": quilt, "squares": len(squares)})


@app.http("GET", "/{quilt}")
def show(_: Request, quilt: str) -> Response:
    """Return the page, which takes the quilt's name from its own address."""
    del quilt
    return Response(200, PAGE, HTML)


@app.task
def paint(unit: Unit, row: int, column: int, torn: bool = False) -> dict[str, Any]:
    """Return a square's colour: the same in every delivery of its unit. A torn one fails at once."""
    if torn:
        raise Torn(f"row {row}, column {column}")
    chosen = random.Random(f"{unit.batch} {unit.index}").randrange(0x1000000)  # noqa: S311  a colour, not a secret
    return {"row": row, "column": column, "color": f"#{chosen:06X}"}


@app.task
def announce(completion: Completion, context: TaskContext, quilt: str) -> None:
    """Store that the quilt is complete, under a random key: a second announcement would be detected.

    A task may be delivered twice; `task` distinguishes that from a second task.
    """
    counts = {"squares": completion.size, "failed": completion.failed}
    announcement = {"kind": "announcement", "quilt": quilt, "task": context.operation, **counts}
    documents.put(f"{quilt}-complete-{uuid.uuid4()}", announcement)


def _parsed(body: dict[str, Any]) -> tuple[str, int, int]:
    match {"torn": 0, **body}:
        case {"quilt": str(quilt), "side": int(side), "torn": int(torn)} if (
            quilt and 0 <= side <= SIDE_MAX and torn >= 0
        ):
            return quilt, side, torn
    raise BadQuilt(f"`quilt` must be a string and `side` an integer from 0 to {SIDE_MAX}.")


quilt = app.entry_point()

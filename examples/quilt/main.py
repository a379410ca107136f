"""A quilt of n × n squares: a batch with a unit for each square, and one completion task when all are painted.

POST {base}quilt {"quilt": "q1", "side": 8}      202; the batch has the quilt's name
GET  {base}batches/q1                            its state and counts
GET  {base}batches/q1/units                      each square: {"row", "column", "color"}
"""

import random
import uuid
from typing import Any

from shared.kit import Completion, Function, Problem, Request, Response, Unit, batch, documents

SIDE_MAX = 100

app = Function("quilt")


class BadQuilt(Problem):
    title = "`quilt` and `side` are required"


@app.http("POST")
def sew(request: Request) -> Response:
    quilt, side = _parsed(request.json_object())
    squares = [paint.call(row=row, column=column) for row in range(side) for column in range(side)]
    batch(quilt).populate(squares, on_complete=announce.call(quilt=quilt))
    return Response(202, {"batch": quilt, "squares": len(squares)})


@app.task
def paint(unit: Unit, row: int, column: int) -> dict[str, Any]:
    """Return a square's colour: the same in every delivery of its unit."""
    chosen = random.Random(f"{unit.batch} {unit.index}").randrange(0x1000000)  # noqa: S311  a colour, not a secret
    return {"row": row, "column": column, "color": f"#{chosen:06X}"}


@app.task
def announce(completion: Completion, quilt: str) -> None:
    """Store that the quilt is complete, under a random key: a second announcement would be detected."""
    announcement = {"kind": "announcement", "quilt": quilt, "squares": completion.size, "failed": completion.failed}
    documents.put(f"{quilt}-complete-{uuid.uuid4()}", announcement)


def _parsed(body: dict[str, Any]) -> tuple[str, int]:
    match body:
        case {"quilt": str(quilt), "side": int(side)} if quilt and 0 <= side <= SIDE_MAX:
            return quilt, side
    raise BadQuilt(f"`quilt` must be a string and `side` an integer from 0 to {SIDE_MAX}.")


quilt = app.entry_point()

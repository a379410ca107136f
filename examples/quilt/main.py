"""A quilt of n × n squares: a batch with a unit a square, and one announcement when all are painted.

POST {base}quilt {"quilt": "q1", "side": 8}      202; the batch has the quilt's name
GET  {base}batches/q1                            how far it is
GET  {base}batches/q1/units                      each square: {"row", "column", "color"}
"""

import random
import uuid
from typing import Any

from shared.kit import Completion, Function, Problem, Request, Response, Unit, batch, documents

SIDE_MAX = 100

app = Function("quilt")


class BadQuilt(Problem):
    title = "Ask for a quilt: its name and its side"


@app.http("POST")
def sew(request: Request) -> Response:
    quilt, side = _wanted(request.json_object())
    squares = [paint.call(row=row, column=column) for row in range(side) for column in range(side)]
    batch(quilt).populate(squares, on_complete=announce.call(quilt=quilt))
    return Response(202, {"batch": quilt, "squares": len(squares)})


@app.task
def paint(unit: Unit, row: int, column: int) -> dict[str, Any]:
    """Paint a square, in the same colour however often it is asked for."""
    chosen = random.Random(f"{unit.batch} {unit.index}").randrange(0x1000000)  # noqa: S311  a colour, not a secret
    return {"row": row, "column": column, "color": f"#{chosen:06X}"}


@app.task
def announce(completion: Completion, quilt: str) -> None:
    """Say that the quilt is complete, under a key of its own each time: twice would show."""
    said = {"kind": "announcement", "quilt": quilt, "squares": completion.size, "failed": completion.failed}
    documents.put(f"{quilt}-complete-{uuid.uuid4()}", said)


def _wanted(body: dict[str, Any]) -> tuple[str, int]:
    match body:
        case {"quilt": str(quilt), "side": int(side)} if quilt and 0 <= side <= SIDE_MAX:
            return quilt, side
    raise BadQuilt(f"Send quilt (text) and side (0 to {SIDE_MAX}).")


quilt = app.entry_point()

"""Stage 5: a quilt of 64 squares and a batch of 2,000 units: each unit once, one completion."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from examples.demo.measured_step import measured_step, poll_until
from examples.gazetteer.checks import Check
from examples.gazetteer.data import terms
from examples.gazetteer.job import OnProgress, Result, Site
from signalbox.client import Client, Document

SIDE = 8
UNITS = 2_000
COLUMNS = 50
SECONDS_MAX = 300.0


def stage(run_id: str, side: int = SIDE, units: int = UNITS) -> Callable[[Client, Site, OnProgress], Iterator[Result]]:
    """Return the stage on batches named after the run."""

    def run(client: Client, site: Site, _: OnProgress) -> Iterator[Result]:
        quilt, large = f"quilt-{run_id}", f"large-{run_id}"
        yield _sewn(client, site, quilt, side)
        yield _counted(client, site, large, units, lambda: once(client, quilt, side * side))

    return run


def _sewn(client: Client, site: Site, quilt: str, side: int) -> Result:
    size = side * side
    body = {"quilt": quilt, "side": side}
    return measured_step(
        "quilt",
        f"{side} × {side} squares, a unit each",
        site,
        lambda: sew(client, "quilt", body, quilt),
        lambda: checks(client, quilt, size, side),
    )


def _counted(client: Client, site: Site, batch: str, units: int, earlier: Callable[[], Check]) -> Result:
    return measured_step(
        "large batch",
        f"{units:,} units, sent as they are to {{base}}batches",
        site,
        lambda: sew(client, "batches", order(batch, units), batch),
        lambda: [*checks(client, batch, units, COLUMNS), earlier()],
    )


def order(batch: str, units: int) -> dict[str, Any]:
    """Write a batch as any client may: payloads, the task that does them, and the task at the end."""
    squares = [{"row": index // COLUMNS, "column": index % COLUMNS} for index in range(units)]
    task = {"function": "quilt", "task": "paint", "payload": {}}
    end = {"function": "quilt", "task": "announce", "payload": {"quilt": batch}}
    return {"id": batch, "units": squares, "task": task, "on_complete": end, "sealed": True}


def sew(client: Client, path: str, body: dict[str, Any], batch: str, seconds_max: float = SECONDS_MAX) -> Check:
    """Send a batch, and wait until it is complete by its status and has announced its completion."""
    client.request("POST", path, body=body)
    sentence = f"complete within {seconds_max:g} s"
    return poll_until(sentence, seconds_max, lambda: bool(said(client, batch)))


def checks(client: Client, batch: str, size: int, columns: int) -> Sequence[Check]:
    """Compare the batch's count, its results and its announcements with the expected ones."""
    shown = client.batch(batch).show()
    results = list(client.batch(batch).units())
    times = Counter(unit["index"] for unit in results)
    misplaced = [unit["index"] for unit in results if _place(unit["result"]) != divmod(unit["index"], columns)]
    counted = [shown[name] for name in ("state", "size", "succeeded", "failed")] == ["completed", size, size, 0]
    return (
        Check(f"{size:,} of {size:,} succeeded, none failed", "" if counted else str(shown), 1),
        Check("each unit once", "" if sorted(times.elements()) == list(range(size)) else _odd(times, size), size),
        Check("each result its own unit's", ", ".join(map(str, misplaced[:5])), size),
        once(client, batch, size),
    )


def once(client: Client, batch: str, size: int) -> Check:
    """Check that there was one announcement, of all units. A task that was delivered twice counts once."""
    heard = {(each["task"], each["squares"]) for each in _announcements(client, batch)}
    counts = [squares for _, squares in heard]
    return Check(f"{batch} was said to be complete once, with all its units", "" if counts == [size] else f"{heard}", 1)


def said(client: Client, batch: str) -> list[int]:
    """Return the number of units in each announcement of a batch."""
    return [each["squares"] for each in _announcements(client, batch)]


def announcers(client: Client, batch: str) -> set[str]:
    """Return the tasks that announced a batch; one that was delivered twice is one."""
    return {each["task"] for each in _announcements(client, batch)}


def _announcements(client: Client, batch: str) -> list[Document]:
    return list(client.documents.find(*terms({"quilt": batch, "kind": "announcement"})))


def _place(square: dict[str, Any]) -> tuple[int, int]:
    return square["row"], square["column"]


def _odd(times: Counter[int], size: int) -> str:
    return f"{size - len(times)} missing, {sum(count > 1 for count in times.values())} more than once"

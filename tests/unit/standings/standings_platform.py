"""A platform on which yokes are put and counted, by the operations and not over HTTP."""

from typing import Any

from signalbox.adapters.cost_meter import Cost
from signalbox.core.effects import Effect
from signalbox.core.ports import Delete, DocumentEvent, Put, Query
from signalbox.standings import tasks
from signalbox.standings.model.exact_sums import Value
from signalbox.standings.model.yokes import StandingKey, Yoke, YokeKey
from signalbox.standings.service import reads, yokes
from tests.unit.operations_platform import OperationsPlatform


class StandingsPlatform(OperationsPlatform):
    """Events and tasks are handled where a test says so."""

    def put_yoke(self, user: str, item: str, value: Value = None, **attributes: Any) -> bool:
        """Put a yoke; return whether it is new."""
        return yokes.put_yoke(self.ports, Yoke(YokeKey(user, item), value, attributes))

    def delete_yoke(self, user: str, item: str) -> None:
        yokes.delete_yoke(self.ports, YokeKey(user, item))

    def count(self, user: str, item: str) -> Cost:
        """Count a yoke, as its event does; return what that cost."""
        return self.cost_of(lambda: tasks.count_event(self.ports, event(user, item)))

    def count_together(self, *yokes: tuple[str, str]) -> Cost:
        """Count yokes as one process does that has received their events; return what that cost."""
        events = {f"{user}~{item}": event(user, item) for user, item in yokes}

        def count() -> None:
            assert tasks.count_events(self.ports, events) == dict.fromkeys(events, True)

        return self.cost_of(count)

    def yoke(self, user: str, item: str, value: Value = None, **attributes: Any) -> Cost:
        """Put and count a yoke."""
        self.put_yoke(user, item, value, **attributes)
        return self.count(user, item)

    def unyoke(self, user: str, item: str) -> Cost:
        """Delete and count a yoke."""
        self.delete_yoke(user, item)
        return self.count(user, item)

    def fold(self) -> None:
        """Run every task of the queue `standings`, those that follow too."""
        while waiting := [task for task in self.tasks if task.queue == "standings"]:
            self.run_task(waiting[0])

    def run_task(self, task: Effect) -> Cost:
        """Run one task, at its time."""
        self.tasks.remove(task)
        if task.not_before and task.not_before > self.now:
            self.pass_time((task.not_before - self.now).total_seconds())
        return self.cost_of(lambda: tasks.run_task(self.ports, task.task, task.payload))

    def rest(self) -> None:
        """Advance the clock by a second, so that standings that were written are quiet again."""
        self.pass_time(2)

    def standing(self, kind: str, *parts: str) -> dict[str, Any]:
        """Return the numbers of a standing."""
        view = reads.get_standing(self.ports, StandingKey(kind, "~".join(parts)))
        return {**view.standing.numbers(), "pending": view.pending}

    def another_writes(self, user: str, item: str, **data: Any) -> None:
        """Write a yoke as another client does, which knows nothing of the kit."""
        self.store.commit([Put(f"yokes/{user}~{item}", data)])

    def another_deletes(self, user: str, item: str) -> None:
        self.store.commit([Delete(f"yokes/{user}~{item}")])

    def adjustments(self, kind: str, id_: str) -> int:
        return len(self.store.query(Query(StandingKey(kind, id_).adjustments)))


def event(user: str, item: str) -> DocumentEvent:
    """Return an event of a yoke that came without its data: the handler reads the yoke as it is now."""
    key = YokeKey(user, item)
    return DocumentEvent("e", "yokes", key.id, key.path, None, None)


def numbers(count: int, sum_: float = 0, average: float | None = None, **others: Any) -> dict[str, Any]:
    """Return a standing as `standing` does."""
    return {"count": count, "sum": sum_, "average": average, "min": None, "max": None, "pending": 0} | others

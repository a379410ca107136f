"""Classes of objects for tests, and the ports that run them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import Ports
from signalbox.core.problems import Problem, UnknownTask
from signalbox.core.wake_ups import WakeUp
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import Delivery
from signalbox.objects import model, service
from signalbox.objects.machine.classes import ObjectClass, Reference, send_post, send_task
from signalbox.objects.model import CallPlace, CallRecord, Message, Post, method_call
from signalbox.objects.service import Code
from tests.unit.operations_platform import OperationsPlatform


class Counter:
    """Counts, remembers its callers in order, and sends on request."""

    total: int = 0
    seen: list[str] = []  # noqa: RUF012  an object starts with a copy

    def add(self, who: str, amount: int = 1) -> int:
        if amount < 0:
            self.total = -1
            raise Problem("Only upwards.")
        self.total += amount
        self.seen.append(who)
        return self.total

    def tell(self, other: str) -> None:
        send_post(Post(ObjectAddress("Counter", other), method_call("add", {"who": "told"}, receipt=False)))
        send_task(Call("shop", "printed", {"total": self.total}))

    def tell_only(self, other: str) -> None:
        send_post(Post(ObjectAddress("Counter", other), method_call("add", {"who": "told"}, receipt=False)))

    def tell_all(self, other: str, names: list[str]) -> None:
        for who in names:
            send_post(Post(ObjectAddress("Counter", other), method_call("add", {"who": who}, receipt=False)))

    def open(self, other: str) -> Reference:
        return Reference(ObjectAddress("Counter", other))

    def fail(self) -> None:
        raise ValueError("a bug")


COUNTER = ObjectClass.from_class(Counter)


def function_of(class_name: str) -> str:
    """Return the function that has a class."""
    if class_name != "Counter":
        raise UnknownTask(f"No function has the class {class_name}.")
    return "counters"


CODE = Code("counters", COUNTER.apply, function_of)


def result_of(call: CallRecord) -> Any:
    """Return the result of a call that ended well."""
    assert call.outcome is not None, "it has no outcome yet"
    assert call.outcome.error is None, call.outcome.error
    return call.outcome.result


def error_of(call: CallRecord) -> Mapping[str, Any]:
    """Return the error that a call ended with."""
    assert call.outcome is not None, "it has no outcome yet"
    assert call.outcome.error is not None, call.outcome.result
    return call.outcome.error


@dataclass
class Objects:
    """Objects on a platform whose tasks a test delivers: wake-ups to the operation, others nowhere."""

    world: OperationsPlatform
    code: Code | None = None

    @property
    def ports(self) -> Ports:
        return self.world.ports

    def call(self, key: str, id_: str, method: str, **arguments: Any) -> CallRecord:
        placeholder = CallPlace(ObjectAddress("Counter", key), id_)
        return service.call_at_once(self.ports, self.code or CODE, placeholder, method_call(method, arguments))

    def post(self, key: str, id_: str, message: Message, **timing: float) -> CallRecord:
        placeholder = CallPlace(ObjectAddress("Counter", key), id_)
        return service.post_call(self.ports, function_of, placeholder, message, model.Timing(**timing))

    def get(self, key: str, id_: str) -> CallRecord:
        return service.get_call(self.ports, CallPlace(ObjectAddress("Counter", key), id_))

    def state(self, key: str) -> dict[str, Any]:
        """Return the fields of an object's state."""
        header = self.world.record(f"objects/Counter~{key}/mailbox/!")
        assert header is not None
        return dict(json.loads(header["state"])["fields"])

    def run(self, task: Effect, deliveries: int = 0) -> None:
        delivery = Delivery(WakeUp.from_payload(task.payload), task.name, deliveries)
        service.run(self.ports, self.code or CODE, delivery, lambda: lambda: False)

    def run_all(self) -> None:
        """Deliver wake-ups, each at its time, until none waits."""
        while woken := self.wake_ups():
            self.world.tasks.remove(woken[0])
            self.world.pass_time(max(0.0, (due_at(woken[0]) - self.world.now).total_seconds()))
            self.run(woken[0])

    def wake_ups(self) -> list[Effect]:
        """Return the wake-ups that wait, the first that is due first."""
        woken = (task for task in self.world.tasks if task.task == "turn")
        return sorted(woken, key=lambda task: (due_at(task), task.name))


def due_at(task: Effect) -> datetime:
    """Return the time before which a wake-up is not delivered."""
    assert task.not_before is not None, "a wake-up has a time"
    return task.not_before

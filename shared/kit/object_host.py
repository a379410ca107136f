"""The objects of a user's function: its classes, their routes, their turns, and the task that calls a method."""

import flask

from shared.adapters import runtime
from shared.adapters.clock import time_budget
from shared.adapters.http.responses import EntryPoint
from shared.adapters.http.routes import Routes
from shared.adapters.http.tasks import TaskDelivery
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadObjectCall
from shared.core.rules.wake_ups import WakeUp
from shared.kit import object_http
from shared.kit.durable_objects import call_object
from shared.kit.object_classes import LocalClasses, declare, local_classes
from shared.objects.operations import runs
from shared.objects.rules.classes import ObjectClass


class ObjectHost:
    """What a function needs for its classes of objects. It may have none, and still be sent their turns."""

    call_method = staticmethod(call_object)
    """The code of the task that calls a method."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._classes: dict[str, ObjectClass] = {}

    def add(self, code: type) -> None:
        """Add a class under its name. Raises `TypeError`, or `ValueError` for a second class of one name."""
        if code.__name__ in self._classes:
            raise ValueError(f"{self._function} has two classes of the name {code.__name__}")
        self._classes[code.__name__] = ObjectClass.from_class(code)
        declare(self._classes, self._function)

    def add_routes(self, routes: Routes) -> None:
        """Add the routes of the objects."""
        object_http.add_routes(routes, lambda: self._local)

    def within(self, entry: EntryPoint) -> EntryPoint:
        """Return an entry point whose requests find the classes of this function."""

        def with_classes(request: flask.Request) -> flask.Response:
            token = local_classes.set(self._local)
            try:
                return entry(request)
            finally:
                local_classes.reset(token)

        return with_classes

    def run_turn(self, request: TaskDelivery) -> None:
        """Run an object's mailbox. Raises `BadObjectCall` for a class that is not here, and what a run raises."""
        deliveries = request.executions + request.retries
        delivery = runs.Run(WakeUp.from_payload(request.payload), request.operation, deliveries)
        if delivery.address.class_name not in self._classes:
            raise BadObjectCall(f"{self._function} has no class {delivery.address.class_name!r}: an older deployment?")
        runs.run(runtime.ports(), self._local.code, delivery, time_budget(LIMITS.turn_seconds))

    @property
    def _local(self) -> LocalClasses:
        return LocalClasses(self._function, self._classes)

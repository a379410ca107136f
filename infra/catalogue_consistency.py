"""The catalogue as a whole: check that its entries agree with each other.

Every queue that a function enqueues to exists, every invoker that a function declares calls it, a function has one
trigger at most, and a class of objects has one function.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.catalogue_entries import CatalogueError, Function, Index, Queue, Schedule, Trigger, refuse
from shared.core.rules.calls import CALL_OBJECT

OBJECTS_QUEUE = "objects"
"""Carries the wake-ups of objects, and nothing else."""

ONE_EACH = "Cloud Functions takes one trigger a function: add another function for this one"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All entries by name. Every reference names an entry that exists and agrees with it."""

    root: Path
    functions: Mapping[str, Function]
    queues: Mapping[str, Queue]
    triggers: Mapping[str, Trigger]
    schedules: Mapping[str, Schedule]
    indexes: Mapping[str, Index]

    def __post_init__(self) -> None:
        for function in self.functions.values():
            for queue in function.enqueues:
                refuse(queue not in self.queues, f"functions.{function.name}: enqueues names no queue: {queue!r}")
            for queue in function.queues:
                refuse(queue not in self.queues, f"functions.{function.name}: queues names no queue: {queue!r}")
            by_queue = "queue" in function.invoked_by and not self._calling(function)
            refuse(by_queue, f"functions.{function.name}: no queue may call it: name one in its queues")
            loses = set(function.queues) - self._forever if function.tasks else set()
            refuse(bool(loses), f"functions.{function.name}: {sorted(loses)} give up tasks: say attempts_max: -1 there")
        self._callers_agree("triggers", self.triggers, "event")
        self._callers_agree("schedules", self.schedules, "schedule")
        self._one_trigger_each()
        self._one_function_a_class()

    @property
    def task_functions(self) -> Mapping[str, frozenset[str]]:
        """Return the names of the tasks of each function whose tasks a call may name; an empty set: not known.

        These are the functions with ``tasks``, and those that queues invoke and that do not lie in ``functions/``.
        """
        of_the_kit = self.root / "functions"
        invoked = (each for each in self.functions.values() if "queue" in each.invoked_by)
        users = (each for each in invoked if each.tasks or of_the_kit not in each.folder.parents)
        return {each.name: frozenset((*each.tasks, *([CALL_OBJECT] if each.objects else ()))) for each in users}

    @property
    def task_queues(self) -> frozenset[str]:
        """Return the queues that may carry a user's tasks: those that the kit does not keep for its own functions.

        The kit counts attempts, so the queue must retry forever.
        """
        return self._forever - {queue for each in self._kits_own for queue in each.queues} - {OBJECTS_QUEUE}

    @property
    def calling_queues(self) -> Mapping[str, frozenset[str]]:
        """Return the queues that call each function that queues invoke."""
        invoked = (each for each in self.functions.values() if "queue" in each.invoked_by)
        return {each.name: self._calling(each) for each in invoked}

    def _calling(self, function: Function) -> frozenset[str]:
        tasks = frozenset(function.queues) or self.task_queues
        return tasks | {OBJECTS_QUEUE} if function.objects else tasks

    @property
    def object_classes(self) -> Mapping[str, str]:
        """Return the function that has the code of each class of objects."""
        return {name: function.name for function in self.functions.values() for name in function.objects}

    @property
    def _forever(self) -> frozenset[str]:
        return frozenset(queue.name for queue in self.queues.values() if queue.attempts_max == -1)

    @property
    def _kits_own(self) -> Iterator[Function]:
        return (each for each in self.functions.values() if self.root / "functions" in each.folder.parents)

    def _callers_agree(self, kind: str, callers: Mapping[str, Trigger] | Mapping[str, Schedule], invoker: str) -> None:
        for name, caller in callers.items():
            function = self.functions.get(caller.function)
            if function is None:
                raise CatalogueError(f"{kind}.{name}: there is no function {caller.function!r}")
            refuse(
                invoker not in function.invoked_by, f"{kind}.{name}: add {invoker!r} to invoked_by of {function.name}"
            )
        called = {caller.function for caller in callers.values()}
        for function in self.functions.values():
            idle = invoker in function.invoked_by and function.name not in called
            refuse(idle, f"functions.{function.name}: invoked_by contains {invoker!r}, and nothing in {kind} names it")

    def _one_function_a_class(self) -> None:
        for function in self.functions.values():
            for name in function.objects:
                other = self.object_classes[name]
                refuse(other != function.name, f"functions.{function.name}: the class {name} is one of {other} already")
            lost = bool(function.objects) and OBJECTS_QUEUE not in self._forever
            refuse(lost, f"functions.{function.name}: its objects need a queue {OBJECTS_QUEUE} with attempts_max: -1")

    def _one_trigger_each(self) -> None:
        first: dict[str, str] = {}
        for name, trigger in self.triggers.items():
            earlier = first.setdefault(trigger.function, name)
            refuse(earlier != name, f"triggers.{name}: {trigger.function} has {earlier} already; {ONE_EACH}")

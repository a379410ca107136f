"""The catalogue as a whole: check that its entries agree with each other.

Every queue that a function enqueues to exists, every invoker that a function declares calls it, and a function has one
trigger at most.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.catalogue_entries import CatalogueError, Function, Index, Queue, Schedule, Trigger, refuse

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
        self._callers_agree("triggers", self.triggers, "event")
        self._callers_agree("schedules", self.schedules, "schedule")
        self._one_trigger_each()
        self._addresses_differ()

    @property
    def task_functions(self) -> Mapping[str, frozenset[str]]:
        """Return the names of the tasks of each function whose tasks a call may name; an empty set: not known.

        These are the functions with ``tasks``, and those that queues invoke and that do not lie in ``functions/``.
        """
        of_the_kit = self.root / "functions"
        invoked = (each for each in self.functions.values() if "queue" in each.invoked_by)
        users = (each for each in invoked if each.tasks or of_the_kit not in each.folder.parents)
        return {each.name: frozenset(each.tasks) for each in users}

    @property
    def origins(self) -> Mapping[str, frozenset[str]]:
        """Return the origins whose pages may call each function that has any."""
        return {each.name: frozenset(each.cors) for each in self.functions.values() if each.cors}

    @property
    def auth(self) -> Mapping[str, str]:
        """Return how each function that authenticates its users does so."""
        return {each.name: each.auth for each in self.functions.values() if each.auth}

    @property
    def split_functions(self) -> frozenset[str]:
        """Return the functions that are deployed twice."""
        return frozenset(each.name for each in self.functions.values() if each.is_split)

    @property
    def task_queues(self) -> frozenset[str]:
        """Return the queues that may carry a user's tasks: the kit counts attempts, so the queue must retry forever."""
        return frozenset(queue.name for queue in self.queues.values() if queue.attempts_max == -1)

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

    def _one_trigger_each(self) -> None:
        first: dict[str, str] = {}
        for name, trigger in self.triggers.items():
            earlier = first.setdefault(trigger.function, name)
            refuse(earlier != name, f"triggers.{name}: {trigger.function} has {earlier} already; {ONE_EACH}")

    def _addresses_differ(self) -> None:
        for name in self.split_functions & {taken.removesuffix("_tasks") for taken in self.functions}:
            refuse(
                f"{name}_tasks" in self.functions,
                f"functions.{name}_tasks: this is the address of the tasks of {name}: rename one of them",
            )

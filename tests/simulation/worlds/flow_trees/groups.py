"""Groups, shields and branches of a model of a flow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from signalbox import Problem, flow
from tests.simulation.worlds.flow_trees.nodes import Item, Node, Open, Outcome, Settled

if TYPE_CHECKING:
    from tests.simulation.worlds.flow_trees.model import Model


@dataclass(frozen=True, slots=True)
class Group(Item):
    """Several items: `kind` is all, settled, first, first_success, or map with `at_once` calls at a time."""

    kind: str
    items: Sequence[Any]
    at_once: int = 1_000

    def node(self, model: Model) -> Node:
        if self.kind == "map":
            return Map(model, self)
        return FirstOf(model, self) if self.kind in ("first", "first_success") else AllOf(model, self)


class GroupNode(Node):
    """The begun items of a group."""

    def __init__(self, model: Model, group: Group) -> None:
        super().__init__(model)
        self.group = group
        self.children: list[Node] = []
        self.is_cancelled = self.is_beginning = False
        self.ended: list[Node] = []

    def start(self) -> None:
        """Begin the items in their order, all of them before the outcome of any counts, except in `first`."""
        self.is_beginning = True
        while self.may_begin() and len(self.children) < len(self.group.items):
            child = self.node_of(self.group.items[len(self.children)]).begin(self)
            self.children.append(child)
            if child.outcome:
                self.ended.append(child)
        self.is_beginning = False
        if not self.waits_for_cancel():
            self.count()

    def node_of(self, item: Any) -> Node:
        return self.model.node_of(item)

    def waits_for_cancel(self) -> bool:
        """Return whether the group has begun while a cancel is due, which comes before the outcomes of its items."""
        return False

    def count(self) -> None:
        """Take the outcomes of items that have ended before all had begun, in the order in which they have ended."""
        for child in self.ended:
            self.took(child)
        self.check()

    def may_begin(self) -> bool:
        """Return whether the next item may begin."""
        return True

    def got(self, child: Node) -> None:
        if self.is_beginning:  # the child has received an event that a later item has looked for
            self.ended.append(child)
            return
        self.took(child)
        self.check()

    def took(self, child: Node) -> None:
        """Note the outcome of a child."""

    def check(self) -> None:
        """End the group if it is decided."""

    def end_without(self, children: Sequence[Node], outcome: Outcome) -> None:
        """End, and drop children whose outcomes are no part of the outcome."""
        self.end(outcome)
        for child in children:
            child.drop()

    def undo(self) -> None:
        for child in self.children:
            child.drop()

    @property
    def has_open_shield(self) -> bool:
        return any(child.has_open_shield for child in self.children if child.is_open)


class AllOf(GroupNode):
    """All of the items. The first error cancels the others, except in `settled`."""

    error: BaseException | None = None
    failed: Node | None = None

    def took(self, child: Node) -> None:
        assert child.outcome is not None
        if child.outcome.error is None or self.group.kind == "settled" or self.error or self.is_cancelled:
            return
        self.error, self.failed = child.outcome.error, child
        self.cancel_children()

    def cancel_children(self) -> None:
        for child in list(self.children):
            if child.is_open:
                child.cancel()

    def waits_for_cancel(self) -> bool:
        return self.model.is_refusing

    @property
    def fate(self) -> bool | None:
        fates = [child.fate for child in self.children]
        if self.outcome is not None or None in fates:
            return super().fate
        return self.group.kind == "settled" or all(fates)

    def cancel(self) -> None:
        if self.is_open and self.fate is not None:  # all items have ended: the cancel comes too late
            for child in self.children:
                child.cancel()
            self.count()
        elif self.is_open:
            self.is_cancelled = True
            if self.error is None:  # otherwise the children are cancelled already, and once is enough
                self.cancel_children()
            self.check()

    def check(self) -> None:
        if not self.is_open:
            return None
        if any(child.is_open for child in self.children):
            return None
        for child in self.children:  # they may all have ended as they began, while a cancel was due
            self.took(child)
        if self.error is not None or self.is_cancelled:
            lost = [child for child in self.children if self.is_cancelled or child is not self.failed]
            return self.end_without(lost, Outcome(error=flow.Cancelled() if self.is_cancelled else self.error))
        return self.end(Outcome([self.result(child) for child in self.children]))

    def result(self, child: Node) -> Any:
        assert child.outcome is not None
        if self.group.kind != "settled":
            return child.outcome.value
        return Settled(child.outcome.value, child.outcome.error)


def has_failed(child: Node) -> bool:
    """Return whether an item has failed: a `first_success` has taken note of its error, also of that of an event."""
    return child.outcome is not None and child.outcome.error is not None


class FirstOf(GroupNode):
    """The first of the items to end, or to succeed. The others are dropped."""

    winner: Node | None = None

    @property
    def fate(self) -> bool | None:
        fates = [child.fate for child in self.children]
        ended = [fate for fate in fates if fate is not None]
        if self.outcome is not None or not ended:
            return super().fate
        if self.group.kind == "first":
            return ended[0]
        return True if any(ended) else None if None in fates else False

    def start(self) -> None:
        with self.model.refusing(False):
            super().start()

    def may_begin(self) -> bool:
        if 0 < len(self.children) < len(self.group.items):
            self.model.pass_on()  # an event that an item gives back may end one of them
        return not any(map(self.wins, self.children))

    def wins(self, child: Node) -> bool:
        return child.outcome is not None and (self.group.kind == "first" or child.outcome.error is None)

    def took(self, child: Node) -> None:
        if self.winner is None and self.wins(child):
            self.winner = child

    def cancel(self) -> None:
        if self.is_open:
            self.is_cancelled = True
            self.check()

    def check(self) -> None:
        if not self.is_open or self.is_beginning:
            return
        if self.winner is not None:
            at, won = self.children.index(self.winner), self.winner.outcome
            assert won is not None
            losers = [child for child in self.children if child is not self.winner and not has_failed(child)]
            self.end_without(losers, won if won.error else Outcome((at, won.value)))
        elif all(child.outcome for child in self.children):
            errors = {at: child.outcome.error for at, child in enumerate(self.children) if child.outcome}
            self.end(Outcome(error=flow.AllFailed("all", cast("Mapping[int | str, Problem]", errors))))
        elif self.is_cancelled and not self.has_open_shield and self.fate is None:
            self.end_without(self.children, Outcome(error=flow.Cancelled()))


@dataclass(frozen=True, slots=True)
class Shield(Item):
    """An item that a cancel does not interrupt."""

    item: Any

    def node(self, model: Model) -> Node:
        return ShieldNode(model, self.item)


class ShieldNode(Node):
    """A shield that has been begun."""

    def __init__(self, model: Model, item: Any) -> None:
        super().__init__(model)
        self.child = model.node_of(item)

    def start(self) -> None:
        with self.model.refusing(False):
            self.outcome = self.child.begin(self).outcome

    def got(self, child: Node) -> None:
        assert child.outcome is not None
        self.end(child.outcome)
        around = self.around
        while around is not None:  # a cancel may have waited for this shield
            if isinstance(around, FirstOf):
                around.check()
            around = around.around

    def undo(self) -> None:
        self.child.drop()

    @property
    def fate(self) -> bool | None:
        return self.child.fate

    @property
    def has_open_shield(self) -> bool:
        return self.is_open


# --- code ---


class Branch(Node):
    """A coroutine. `is_due`: a cancel is raised at the next `await` that is not a shield, or `at_once` at any `await`.

    `is_users`: code of the user, which keeps the locks that it has received; functions of the kit release them.
    """

    def __init__(self, model: Model, code: Coroutine[Item, Any, Any], *, is_users: bool = True) -> None:
        super().__init__(model)
        self.code = code
        model.codes.append(code)
        self.is_users = is_users
        self.is_due = self.is_due_at_once = self.has_begun = False
        self.waiting: Node | None = None

    def start(self) -> None:
        self.model.ready.append(partial(self.resume, Outcome()))

    def got(self, child: Node) -> None:
        assert child.outcome is not None
        self.model.ready.append(partial(self.resume, child.outcome))

    def cancel(self) -> None:
        if not self.is_open:
            return
        if not self.has_begun:
            self.code.close()
            if not self.model.is_refusing:
                raise Open  # whether the code begins
            self.end(Outcome(error=flow.Cancelled()))
            return
        self.is_due = True
        if self.waiting is not None:
            self.waiting.cancel()

    def resume(self, outcome: Outcome) -> None:
        """Run the code until it waits or ends."""
        if not self.is_open:
            return
        self.has_begun = True
        if outcome.is_cancelled:
            self.is_due = False
        try:
            item = self.code.throw(outcome.error) if outcome.error else self.code.send(outcome.value)
        except StopIteration as stop:
            self.model.ready.append(partial(self.end, Outcome(stop.value)))
        except (Problem, flow.Cancelled) as error:
            self.model.ready.append(partial(self.end, Outcome(error=error)))
        else:
            if (ended := self.await_(item)) is not None:  # other code that is ready runs first
                self.model.ready.append(partial(self.resume, ended))

    def await_(self, item: Item) -> Outcome | None:
        """Begin what the code awaits. Return its outcome if it has one at once."""
        is_due = self.is_due and (self.is_due_at_once or not isinstance(item, Shield))
        if is_due and (self.is_due_at_once or not has_shield(item)):
            self.is_due_at_once = False
            close(item)
            return Outcome(error=flow.Cancelled())
        with self.model.refusing(is_due):
            self.waiting = node = self.model.node_of(item)
            node.begin(self if not is_due else None)
            if is_due:  # of the item, only the shields are begun
                node.cancel()
        node.around = self
        return node.outcome

    def undo(self) -> None:
        if not self.has_begun:
            self.code.close()
        if self.waiting is not None and not self.is_users:
            self.waiting.drop()


class Map(AllOf):
    """A map: the group of its lanes. In a lane, the next call begins as soon as a call has ended."""

    def __init__(self, model: Model, group: Group) -> None:
        super().__init__(model, Group("map", range(min(group.at_once, len(group.items)))))
        self.calls = iter(enumerate(group.items))
        self.results: dict[int, Any] = {}
        self.has_failed_call = False

    def node_of(self, _: int) -> Node:
        return Lane(self.model, self)

    def next_call(self) -> tuple[int, Callable[[], Awaitable[Any]]] | None:
        """Return the next call and its number, unless a call has failed or the map is cancelled."""
        return None if self.error or self.is_cancelled or self.has_failed_call else next(self.calls, None)

    def end(self, outcome: Outcome) -> None:
        super().end(outcome if outcome.error else Outcome([self.results[number] for number in sorted(self.results)]))
        if isinstance(self.failed, Lane):
            self.failed.undo_results()


class Lane(Branch):
    """Calls of a map that follow one another. If the function is a coroutine function, its code is the user's."""

    def __init__(self, model: Model, calls: Map) -> None:
        super().__init__(model, self.run(calls), is_users=False)
        self.received: list[Node] = []

    async def run(self, calls: Map) -> None:
        while call := calls.next_call():
            number, function = call
            item = function()
            self.is_users = isinstance(item, Coroutine)
            try:
                calls.results[number] = await item
            except Problem:
                calls.has_failed_call = True
                raise
            self.is_users = False

    def await_(self, item: Item) -> Outcome | None:
        ended = super().await_(item)
        if self.waiting is not None and not self.is_users:
            self.received.append(self.waiting)
        return ended

    def undo(self) -> None:
        if not self.has_begun:
            self.code.close()
        for node in self.received:
            node.drop()

    def undo_results(self) -> None:
        """Undo what the lane has received before its error, which the code of the map receives."""
        for node in self.received:
            if not has_failed(node):
                node.drop()


@dataclass(frozen=True, slots=True)
class Function(Item):
    """A call of a function of the kit that is itself a coroutine. An `await` runs it as a part of the code."""

    code: Coroutine[Any, Any, Any]

    def node(self, model: Model) -> Node:
        return Branch(model, self.code, is_users=False)

    def __await__(self) -> Generator[Item, Any, Any]:
        return self.code.__await__()


def has_shield(item: Any) -> bool:
    """Return whether a group contains a shield."""
    return isinstance(item, Shield) or (isinstance(item, Group) and any(map(has_shield, item.items)))


def close(item: Any) -> None:
    """Close the coroutines of an item that is not begun."""
    match item:
        case Coroutine():
            item.close()
        case Function():
            item.code.close()
        case Group() if item.kind != "map":
            for each in item.items:
                close(each)
        case Shield():
            close(item.item)

"""The order of turns among the waits of several keys and priorities.

A lane is the waits of one key and one priority; in a lane, the first waiter is served first. Lanes share the permits by
weight: a lane's weight is that of its key (1 if the semaphore sets no other) times that of its priority (16, 4 or 1).
This is stride scheduling (Waldspurger 1995), or start-time fair queueing (Goyal 1996): each lane has a tag, a permit
goes to the lane with the least tag, and the lane's tag then grows by `STRIDE` / weight. A priority is a share, not an
order, so each lane that waits is served: between two of its grants, another lane is granted at most
⌊other weight / own weight⌋ + 1 permits, if each wait is for one.

Tags are numbers of the semaphore's record, relative to the tag of the lane that was served last. So a lane that joins
begins at 0, or at its old tag if that is larger. The tag of a lane without waiters is kept until the others have passed
it, that is, until it is 0.

    lane                  waiters read     then
    --------------------  ---------------  ---------
    closed                none             opening
    closed                some remain      closed
    closed                all are granted  opening
    opening               none             open
    opening               some remain      closed
    opening               all are granted  opening
    closed, opening       not read         same
    open                  not read         same

    a waiter joins        the lane is      then
    --------------------  ---------------  ---------
    alone                 closed           same
    with the record       any other        closed

`open` means that a lane has no waiters. Like a semaphore (sem-1), a lane opens in two steps, because a wait can join a
`closed` lane without writing the semaphore's record. When all lanes are open, the semaphore opens and forgets them.
When only the plain lane is left, the semaphore continues without lanes.

A record does not have room for an unlimited number of keys. A key that finds `lanes_max` lanes shares one of
`lanes_shared_max` with other keys, chosen by its hash, for as long as this lane has waiters or a tag to keep. A key
with a weight never shares a lane, unless it is given its weight while it may have waits in a shared one: it stays there
until that lane has no waiters, so that none of its waits overtakes an earlier one.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import takewhile

from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import replace
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine.decision_types import Head, Loaded
from signalbox.semaphores.model.known_head import NOTHING_KNOWN
from signalbox.semaphores.model.lanes import PLAIN, Lane, Mode, lane_id, shared_lane_id
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.waiters import Waiter

PRIORITY_WEIGHTS: Mapping[str, int] = {"high": 16, "normal": 4, "low": 1}

STRIDE = 720_720_000_000
"""The distance by which a permit moves the tag of a lane of weight 1. It is divisible by each number up to 16, and by
most weights of keys. For other weights, a share is exact to about a millionth."""

UNREAD = Head()


# --- lanes of waits ---


def lane_of(semaphore: Semaphore, key: str, priority: str) -> str:
    """Return the lane that a wait joins: its own, or a shared lane if the record has no room for another."""
    own = lane_id(key, priority)
    if own == PLAIN or semaphore.lane(own):
        return own
    shared = _shared_lane_of(key, priority)
    listed = semaphore.lane(shared)
    if key in semaphore.settings.weights:
        return shared if listed and key in listed.keys else own
    full = len(semaphore.lanes) >= LIMITS.lanes_max
    return shared if full or listed else own


def _shared_lane_of(key: str, priority: str) -> str:
    return shared_lane_id(int(name_of("key", key)[:8], 16) % LIMITS.lanes_shared_max, priority)


def with_weights_of(before: Semaphore, after: Semaphore) -> Semaphore:
    """Return the semaphore `after` a change of its settings. Keys that have a weight now stay in their shared lanes."""
    gained = after.settings.weights.keys() - before.settings.weights.keys()
    for key in sorted(gained):
        for priority in PRIORITY_WEIGHTS:
            if after.lane(lane_id(key, priority)) is None:
                after = keeping(after, _shared_lane_of(key, priority), key)
    return after


def keeping(semaphore: Semaphore, lane: str, key: str) -> Semaphore:
    """Return the semaphore in which a key that has a weight stays in the shared lane in which it waits."""
    listed = semaphore.lane(lane)
    if listed is None or listed.key is not None or listed.mode == "open" or key in listed.keys:
        return semaphore
    if key not in semaphore.settings.weights:
        return semaphore
    kept = replace(listed, keys=(*listed.keys, key))
    return replace(semaphore, lanes=tuple(kept if other is listed else other for other in semaphore.lanes))


def weight_of(semaphore: Semaphore, lane: Lane) -> int:
    """Return the weight of a lane: the weight of its key times the weight of its priority."""
    return PRIORITY_WEIGHTS[lane.priority] * semaphore.settings.weights.get(lane.key or "", 1)


def is_closed(semaphore: Semaphore, lane: str) -> bool:
    """Return whether the record says that a lane may have waiters. Then a waiter's record can be created alone."""
    if not semaphore.lanes:
        return semaphore.mode == "closed" and lane == PLAIN
    listed = semaphore.lane(lane)
    return listed is not None and listed.mode == "closed"


def closed(semaphore: Semaphore, lane: str, now: datetime) -> Semaphore:
    """Return the semaphore with its mode, and that of the lane that a waiter joins or returns to, set to `closed`."""
    after = semaphore.moved_to("closed", now)
    if not semaphore.lanes and lane == PLAIN:
        return after
    if not semaphore.lanes:
        plain = () if semaphore.mode == "open" else (Lane(PLAIN, known=semaphore.known),)
        return replace(after, lanes=(*plain, Lane(lane)), known=NOTHING_KNOWN)
    if semaphore.lane(lane) is None:
        return replace(after, lanes=(*semaphore.lanes, Lane(lane, joining_tag(semaphore))))
    return replace(after, lanes=tuple(_closed(other) if other.id == lane else other for other in semaphore.lanes))


def joining_tag(_: Semaphore) -> int:
    """Return the tag of a lane that joins: the tag of the lane served last, to which all tags are relative."""
    return 0


def _closed(lane: Lane) -> Lane:
    return replace(lane, mode="closed")


def without_known_head(semaphore: Semaphore, lane: str) -> Semaphore:
    """Forget the order of a lane's waiters, because one returns to a place in front of them."""
    if not semaphore.lanes:
        return replace(semaphore, known=NOTHING_KNOWN)
    forgotten = (replace(other, known=NOTHING_KNOWN) if other.id == lane else other for other in semaphore.lanes)
    return replace(semaphore, lanes=tuple(forgotten))


# --- turns ---


def in_turn(loaded: Loaded) -> tuple[Waiter, ...]:
    """Return the waiters of the lanes that were read, in the order in which they are served.

    The result ends before the first waiter that was not read.
    """
    return tuple(waiter for _, waiter in takewhile(lambda turn: turn[1], _turns(loaded)) if waiter)


def reads_needed(loaded: Loaded, permits: int) -> Mapping[str, int]:
    """Return the lanes to read before `permits` can be granted, mapped to the number of waiters to read."""
    turns: Counter[str] = Counter()
    needed: dict[str, int] = {}
    for lane, waiter in _turns(loaded):
        turns[lane] += 1
        wanted = _permits(loaded, waiter) if waiter else 1
        more_lanes = lane not in loaded.heads and lane not in needed
        no_room = more_lanes and len(loaded.heads) + len(needed) >= LIMITS.lanes_read_max
        uncertain = waiter is None and turns[lane] <= loaded.heads.get(lane, UNREAD).asked
        if wanted > permits or no_room or uncertain:
            break
        permits -= wanted
        if waiter is None:
            needed[lane] = turns[lane]
    return needed


def _turns(loaded: Loaded) -> Iterator[tuple[str, Waiter | None]]:
    """Iterate over the turns: the lane with the least tag, and its next waiter, or None if that waiter was not read."""
    semaphore = loaded.semaphore
    lanes = {lane.id: lane for lane in semaphore.lanes if lane.mode != "open"}
    tags = {id_: lane.tag for id_, lane in lanes.items()}
    turns: Counter[str] = Counter()
    while tags:
        lane = lanes[min(tags, key=lambda id_: (tags[id_], id_))]
        head = loaded.heads.get(lane.id, UNREAD)
        waiter = head.waiters[turns[lane.id]] if turns[lane.id] < len(head.waiters) else None
        if waiter is None and not head.more:
            del tags[lane.id]
            continue
        yield lane.id, waiter
        turns[lane.id] += 1
        tags[lane.id] += stride(semaphore, lane, _permits(loaded, waiter) if waiter else 1)


def _permits(loaded: Loaded, waiter: Waiter) -> int:
    """Return the permits that a waiter is granted in its turn; 0 if it is only taken out of the queue."""
    is_own = waiter.incarnation == loaded.incarnation
    return waiter.permits if is_own and waiter.permits <= loaded.semaphore.settings.permits else 0


def stride(semaphore: Semaphore, lane: Lane, permits: int) -> int:
    """Return the distance by which a number of permits moves the tag of a lane."""
    return permits * (STRIDE // weight_of(semaphore, lane))


# --- after the grants ---


def served(loaded: Loaded, semaphore: Semaphore, granted: Sequence[Waiter], left: Collection[str]) -> Semaphore:
    """Return the semaphore after grants in this order, and after the waiters `left` have left the wait queue."""
    tags = {lane.id: lane.tag for lane in semaphore.lanes}
    served_last = 0
    for waiter in granted:
        lane = semaphore.lane(waiter.lane)
        assert lane is not None, "a waiter that was read is in a lane of the record"
        served_last = tags[lane.id]
        tags[lane.id] += stride(semaphore, lane, waiter.permits)
    moved = (replace(lane, tag=max(0, tags[lane.id] - served_last)) for lane in semaphore.lanes)
    after = tuple(lane_after_read(loaded, lane, left) for lane in moved)
    return _compact(replace(semaphore, lanes=after))


def lane_after_read(loaded: Loaded, lane: Lane, left: Collection[str]) -> Lane:
    """Return a lane with its new mode, and with the known part of its waiters' order."""
    head = loaded.heads.get(lane.id)
    if head is None:
        return lane
    remaining = [waiter for waiter in head.waiters if waiter.id not in left]
    mode = lane_mode_after(lane.mode, found=bool(head.waiters), remaining=head.more or bool(remaining))
    known = head.known.after([waiter for waiter in remaining if waiter.incarnation == loaded.incarnation])
    known = known.shortened(LIMITS.lane_heads_max // len(loaded.semaphore.lanes))
    return replace(lane, mode=mode, known=known, keys=() if mode == "open" else lane.keys)


def lane_mode_after(mode: Mode, *, found: bool, remaining: bool) -> Mode:
    """Return the mode of a lane after a read. `found`: the lane had waiters; `remaining`: it still has some."""
    return mode_after(mode, found=found, remaining=remaining)


def mode_after(mode: Mode, *, found: bool, remaining: bool) -> Mode:
    """Return the mode after a read of a wait queue. `found`: it had waiters; `remaining`: it still has some."""
    if remaining:
        return "closed"
    return "opening" if mode == "closed" or found else "open"


def _compact(semaphore: Semaphore) -> Semaphore:
    """Remove lanes without waiters whose tags the others have passed. If no lane has waiters, open the semaphore."""
    kept = tuple(lane for lane in semaphore.lanes if lane.mode != "open" or lane.tag > 0)
    if all(lane.mode == "open" for lane in kept):
        return replace(semaphore, mode="open", lanes=())
    if [lane.id for lane in kept] == [PLAIN]:
        return replace(semaphore, mode=kept[0].mode, known=kept[0].known, lanes=())
    return replace(semaphore, lanes=kept)

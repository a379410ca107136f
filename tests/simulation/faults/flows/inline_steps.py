"""Planted faults of inline steps: claims, what deliveries leave, cancels, failures, starts (inline-1 to inline-13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.core.ports import Committed, Ports, Put, Snapshot, WriteResult
from signalbox.core.problems import Unavailable
from signalbox.flows.machine.carried_steps import CarriedSteps
from signalbox.flows.machine.claims import Carrier, Steps
from signalbox.flows.machine.retries import Retried
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.log import time_of
from signalbox.flows.model.messages import Message, Result
from signalbox.flows.model.waits import Claim
from signalbox.flows.service.turns import Advanced, LiveTurn
from signalbox.flows.storage.commits import Commit
from signalbox.mailboxes.storage import header_put
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacement, always, original
from tests.simulation.worlds.flows import inline_steps

claim_steps = original("flows.FlowTurn.claim_steps")
wake_times = original("flows.FlowTurn.wake_times")
new_claims = original("flows.new_claims")
kept_claims = original("flows.kept_claims")
must_wait = original("flows.FlowTurn.must_wait")
counts = original("flows.FlowTurn.counts_failure")
commit_turn = original("flows.commit_turn")
take = original("flows.take_page")
advance = original("flows.advance in turns")
live_turn = original("flows.live_turn")
left = original("flows.CarriedSteps.left")


def in_inline_steps(clause: str, without: str, *replacements: Replacement) -> Fault:
    """Return a fault that the world of inline steps must notice."""
    return Fault(clause, without, always(*replacements), inline_steps.run)


def _unclaimed(turn: FlowTurn) -> None:
    """Begin steps whose claims no commit contains."""
    claim_steps(turn)
    turn.running = {path: claim for path, claim in turn.running.items() if path not in turn.claimed}


def _of_the_task(delivered: Any) -> str:
    return str(delivered.delivery.id)


def _unguarded(header: Snapshot, fields: Any, revision: int) -> Put:
    return replace(header_put(header, fields, revision), guard=None)


def _only_later(turn: FlowTurn) -> list[datetime | None]:
    return [at for at in wake_times(turn) if at is not None]


def _only_now(turn: FlowTurn) -> list[datetime | None]:
    return [at for at in wake_times(turn) if at is None]


def _same_pause(step: Retried, attempt: int) -> float:
    return step.pause_seconds if attempt > 1 else 0


def _unmarked(turn: FlowTurn, message: Message) -> bool:
    """Leave a cancel without a change of the header."""
    waits: bool = must_wait(turn, message)
    turn.cancels_left = 0
    return waits


def _landed(ports: Ports, commit: Commit) -> Committed:
    """Take a commit without an answer for landed."""
    try:
        committed: Committed = commit_turn(ports, commit)
    except Unavailable:
        if commit.header is None or not commit.header.log.tail:
            raise
        now = time_of(commit.header.log.tail[-1])
        return Committed(now, tuple(WriteResult(now) for _ in commit.writes))
    return committed


def _any_failure(turn: FlowTurn, message: Result, now: datetime) -> bool:
    return message.outcome.raised is None or bool(counts(turn, message, now))


def _uncounted(claims: Mapping[str, Claim], steps: Steps, carrier: Carrier, now: datetime) -> dict[str, Claim]:
    return {path: replace(claim, starts=1) for path, claim in new_claims(claims, steps, carrier, now).items()}


def _together(claims: Mapping[str, Claim], steps: Steps, carrier: Carrier, now: datetime) -> dict[str, Claim]:
    """Claim steps that were started before next to others."""
    found: dict[str, Claim] = {}
    for path, step in steps.items():
        alone = replace(carrier, busy=frozenset())
        known = {path: claims[path]} if path in claims else {}
        if path not in carrier.busy:
            found |= new_claims(known, {path: step}, alone, now)
    return found


def _kept_unbegun(claims: Mapping[str, Claim], steps: Steps, carrier: Carrier, now: datetime) -> dict[str, Claim]:
    """Keep the claims of this delivery whose code it has not begun."""
    mine = {path: claim for path, claim in claims.items() if path in steps and carrier.owns(claim)}
    return {**kept_claims(claims, steps, carrier, now), **{path: mine[path] for path in mine.keys() - carrier.busy}}


def _gives_up_first(turn: FlowTurn, page: Sequence[Any], own: Result | None) -> Any:
    """Give up steps before the outcomes that wait for the flow."""
    turn.give_up_steps()
    return take(turn, page, own)


def _leaves_steps(*arguments: Any) -> Advanced:
    return replace(advance(*arguments), leaves_steps=False)


def _without_a_chunk(*arguments: Any) -> LiveTurn | None:
    live: LiveTurn | None = live_turn(*arguments)
    return live and replace(live, last_chunk="[]")


def _forgotten(steps: CarriedSteps, result: Result) -> CarriedSteps:
    """Leave an outcome, and forget that the mailbox has it."""
    after: CarriedSteps = left(steps, result)
    return replace(after, has_left=False)


FAULTS = (
    in_inline_steps("inline-1", "the claim in the commit before the code", ("flows.FlowTurn.claim_steps", _unclaimed)),
    in_inline_steps("inline-1", "leaving a claim until it is over", ("flows.is_free", lambda *_: True)),
    in_inline_steps("inline-2", "a claim of the delivery", ("flows.FlowDelivery.identify", _of_the_task)),
    in_inline_steps(
        "inline-3", "the wake-up for the end of another's claim", ("flows.FlowDelivery.wake_for", lambda *_: None)
    ),
    in_inline_steps(
        "inline-3", "looking at the claims although all is read", ("flows.FlowDelivery.has_work", lambda *_: False)
    ),
    in_inline_steps("inline-4", "the guard of a commit without a read", ("flows.header_put", _unguarded)),
    in_inline_steps("inline-4", "the last chunk of the previous commit", ("flows.live_turn", _without_a_chunk)),
    in_inline_steps("inline-6", "the wake-up for steps that are left", ("flows.FlowTurn.wake_times", _only_later)),
    in_inline_steps("inline-6", "the wake-up without a commit", ("flows.advance in turns", _leaves_steps)),
    in_inline_steps("inline-7", "a cancel that waits for code", ("flows.FlowTurn.must_wait", lambda *_: False)),
    in_inline_steps("inline-7", "the mark of a cancel that waits", ("flows.FlowTurn.must_wait", _unmarked)),
    in_inline_steps("inline-8", "reading after a lost answer", ("flows.commit_turn", _landed)),
    in_inline_steps("inline-8", "giving back a claim that was not known", ("flows.kept_claims", _kept_unbegun)),
    in_inline_steps("inline-9", "the claim of a failure", ("flows.FlowTurn.counts_failure", _any_failure)),
    in_inline_steps("inline-10", "counting starts in the claim", ("flows.new_claims", _uncounted)),
    in_inline_steps("inline-10", "starting a step again alone", ("flows.new_claims", _together)),
    in_inline_steps(
        "inline-10", "leaving an outcome before it is received", ("flows.CarriedSteps.repeated", property(lambda _: []))
    ),
    in_inline_steps("inline-10", "reading an outcome that was left", ("flows.CarriedSteps.left", _forgotten)),
    in_inline_steps("inline-10", "an outcome that waits, before giving up", ("flows.take_page", _gives_up_first)),
    in_inline_steps(
        "inline-10", "an outcome that waits, before a next start", ("flows.Carrier.may_start_again", lambda *_: True)
    ),
    in_inline_steps("inline-12", "the pause before an attempt", ("flows.due_at", lambda *_: None)),
    in_inline_steps("inline-12", "the growth of the pause", ("flows.Retried.pause_before", _same_pause)),
    in_inline_steps("inline-12", "the wake-up after a pause", ("flows.FlowTurn.wake_times", _only_now)),
    in_inline_steps(
        "inline-13", "leaving outcomes that cannot be applied", ("flows.FlowDelivery.leave_outcomes", lambda _: None)
    ),
)

"""Large values of objects: where their payloads are, and how messages, outcomes and states name them.

    objects/{hash of the header}/{revision}/{sha256}     a state; deleted soon after a later turn has replaced it
    objects/{hash of the message}/{part}/{sha256}        arguments and result of a call, while its record names them

A part is never used again: it is the revision of the turn that stores, or a new id. So no commit names a payload that
is old enough for the collector.
"""

import json
from collections.abc import Callable, Sequence

from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import header_path, message_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.objects.limits import LIMITS
from signalbox.objects.model import Applied, Message, Post
from signalbox.payloads.model import Outgoing, Payload, Place, payload_in, payloads_in, place_of


def place_of_states(address: ObjectAddress) -> Place:
    """Return the place of all states of an object."""
    return place_of(header_path(address.base))


def place_of_state(address: ObjectAddress, revision: int) -> Place:
    """Return the place of the state that a turn leaves."""
    return place_of(header_path(address.base), str(revision))


def place_of_call(address: ObjectAddress, id_: str, part: str) -> Place:
    """Return the place of the arguments and the result of a call. `part` is used by one process only."""
    return place_of(message_path(address.base, id_), part)


# --- messages ---


def claimed(message: Message, place: Place, outgoing: Outgoing) -> Message:
    """Return a message as its record contains it: `outgoing` collects large arguments. Raises `TooLarge`."""
    return message.with_arguments(outgoing.claimed_members(message.arguments, place))


def claimed_anew(
    message: Message, address: ObjectAddress, id_: str, new_id: Callable[[], str], outgoing: Outgoing
) -> Message:
    """Return a message that is posted under `id_` as its record contains it. Only large arguments need a new id."""
    needed = Outgoing()
    own = claimed(message, place_of_call(address, id_, ""), needed)
    return claimed(message, place_of_call(address, id_, new_id()), outgoing) if needed else own


def copied(message: Message, place: Place, outgoing: Outgoing) -> Message:
    """Return a message of a record as the record of another message contains it."""
    return message.with_arguments({name: outgoing.copied(value, place) for name, value in message.arguments.items()})


def repeated(message: Message, first: Message, address: ObjectAddress, id_: str) -> Message:
    """Return a message with the names that the first one of its id has, as far as they are of the same contents."""
    for payload in payloads_in(*first.arguments.values()):
        place = Place(message_path(address.base, id_), payload.prefix)
        return copied(message, place, Outgoing())
    return message


# --- the effects of a method ---


def claimed_effects(applied: Applied, posts: Sequence[Post], place: Place, revision: int) -> Applied:
    """Return the effects of a call as records contain them.

    `posts` are its messages, which have ids, and `place` is that of its outcome. Raises `TooLarge`.
    """
    outgoing = Outgoing()
    sent = [
        replace(post, message=claimed(post.message, place_of_call(post.address, post.id, str(revision)), outgoing))
        for post in posts
    ]
    result = outgoing.claimed(applied.outcome.result, place, CORE_LIMITS.result_bytes_max)
    outcome = replace(applied.outcome, result=result)
    return replace(applied, outcome=outcome, sent=replace(applied.sent, posts=sent), outgoing=outgoing)


def copied_outcome(outcome: CallOutcome, place: Place, outgoing: Outgoing) -> CallOutcome:
    """Return an outcome of a record as the records or tasks of another place contain it."""
    return replace(outcome, result=outgoing.copied(outcome.result, place))


def stored_state(text: str | None, before: str | None, place: Place, outgoing: Outgoing) -> str | None:
    """Return a state as the header contains it, where it has the state `before`. `outgoing` collects a large state."""
    if text is None or len(text) <= LIMITS.object_state_bytes_max:
        return text
    content = text.encode()
    named = named_state(before)
    if named is not None and named.is_of(content):
        return before
    return json.dumps(outgoing.named(content, place))


def named_state(text: str | None) -> Payload | None:
    """Return the payload that the header of an object has in place of its state, or None."""
    return payload_in(json.loads(text)) if text and len(text) < NAME_LETTERS_MAX else None


NAME_LETTERS_MAX = 1_000
"""The name of a payload is shorter: longer states need not be parsed to know that they are no name."""

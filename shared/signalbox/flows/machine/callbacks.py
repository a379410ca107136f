"""Callbacks: signed addresses that admit one event of one run, once.

The token in an address has three parts: what it admits (JSON in base64url), the id of the key, and their HMAC-SHA256.
`flow.callback` signs it in an inline step, so the address is recorded in the log, and a later rotation of the keys
changes no replay.

    the token                                      the request
    has another form, key or signature             NoCallback
    is of another function                         NoCallback
    is of a run that does not exist                NoCallback
    is of an earlier run of the same id            NoCallback
    has expired                                    CallbackExpired
    otherwise                                      the event, under an id that follows from the token's step

The event's id makes the token valid once: a repeat with the same value changes nothing, another value is refused.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Self

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import check_event_name
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.problems import BadFlow, CallbackExpired, NoCallback, check_text, refuse_for_code, utf8_bytes

KEY_LETTERS_MIN = 32
"""Characters of the shortest key."""

PURPOSE = "signalbox callback"
"""The beginning of every signed text, so that no other signature by the same key is valid here."""


def keys_of(text: str) -> Sequence[bytes]:
    """Return the keys in a secret, which has a key on each line. Raises `ValueError`.

    The first key signs; all keys verify.
    """
    keys = [line.strip() for line in text.splitlines() if line.strip()]
    if not keys or any(len(key) < KEY_LETTERS_MIN for key in keys):
        raise ValueError(
            f"The secret of callbacks must have one key a line, each of {KEY_LETTERS_MIN} or more characters"
        )
    return [key.encode() for key in keys]


@dataclass(frozen=True, slots=True)
class Callback:
    """The right to send `event` to the run `id` of `flow`, through `function`, until `expires_at`.

    `incarnation` distinguishes the runs that have had the same id; `operation` distinguishes the callbacks of one run.
    `expires_at` is in seconds since 1970, UTC. The page shows `question`, with a button for each of the `choices`.
    """

    function: str
    flow: str
    id: str
    incarnation: str
    event: str
    expires_at: int
    question: str = ""
    operation: str = ""
    choices: tuple[str, ...] = ()

    @classmethod
    def checked(
        cls,
        function: str,
        run: tuple[str, str, str],
        event: str,
        expires_at: int,
        question: str,
        choices: Sequence[str] = (),
    ) -> Self:
        """Return a callback of a `run` (flow, id, incarnation). Raises `BadFlow`."""
        if not utf8_bytes(function):
            raise BadFlow("`through` must be the name of a function that calls `app.callbacks()`.", field="through")
        if question != "":
            check_text(question, "`question`", LIMITS.flow_callback_question_bytes_max, "question")
        letters_max = LIMITS.flow_callback_choice_letters_max
        different = f"`choices` must be different strings of 1 to {letters_max} characters."
        texts = not isinstance(choices, str) and all(isinstance(each, str) for each in choices)
        if not texts or len(set(choices)) < len(choices) or not all(choices):
            raise BadFlow(different, field="choices")
        if any(len(each) > letters_max or not utf8_bytes(each) for each in choices):
            refuse_for_code(different, "choices")
        callback = cls(function, *run, check_event_name(event), expires_at, question, choices=tuple(choices))
        if len(callback._payload()) + 200 > LIMITS.flow_callback_token_max:  # operation, key id and signature
            parts = "the run's id, the event's name, the question or the choices"
            refuse_for_code(f"The address would be too long: shorten {parts}.", "question")
        return callback

    @property
    def address(self) -> FlowAddress:
        """The address of the run."""
        return FlowAddress(self.flow, self.id)

    def token(self, keys: Sequence[bytes]) -> str:
        """Return the token, signed with the first key."""
        signed = f"{self._payload()}.{_id_of(keys[0])}"
        return f"{signed}.{_signature(signed, keys[0])}"

    @classmethod
    def from_token(cls, token: str, keys: Sequence[bytes], function: str) -> Self:
        """Return the event that a token admits at `function`. Raises `NoCallback`."""
        signed, _, signature = token.rpartition(".")
        payload, _, key_id = signed.rpartition(".")
        key = next((key for key in keys if _id_of(key) == key_id), None)
        if key is None or not hmac.compare_digest(_signature(signed, key).encode(), signature.encode()):
            raise not_valid()
        callback = cls(*json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))))
        callback = replace(callback, choices=tuple(callback.choices))
        if callback.function != function:
            raise not_valid()
        return callback

    def check(self, header: FlowHeader, now: datetime) -> None:
        """Raise `NoCallback` if the header belongs to another run, and `CallbackExpired` after `expires_at`."""
        if header.incarnation != self.incarnation:
            raise not_valid()
        if now.timestamp() >= self.expires_at:
            raise CallbackExpired("This address was valid for a limited time, which is over.")

    def _payload(self) -> str:
        return _text(json.dumps(astuple(self), ensure_ascii=False, separators=(",", ":")).encode())


def not_valid() -> NoCallback:
    """Return the problem for any invalid token. It does not disclose why the token is invalid."""
    return NoCallback("This address is not valid: it was cut off or changed, or its run does not exist any more.")


def _id_of(key: bytes) -> str:
    """Return an id for a key. The id does not disclose the key."""
    return hashlib.sha256(PURPOSE.encode() + b" key " + key).hexdigest()[:8]


def _signature(signed: str, key: bytes) -> str:
    return _text(hmac.new(key, f"{PURPOSE} {signed}".encode(), hashlib.sha256).digest())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")

"""The limits of objects, each with its reason."""

from signalbox.core.limits import Limits


class ObjectLimits(Limits):
    turn_seconds: float = 10
    """The time after which a turn begins no further call. The next turn applies the remaining calls."""

    turn_bytes_max: int = 2 * 1024 * 1024
    """The bytes that one turn reads, in addition to the state, and that it writes."""

    turn_task_bytes_max: int = 800_000
    """Payloads of the tasks of one turn, with the outcomes that continuations receive: they share an outbox record."""

    turn_payload_bytes_max: int = 64 * 1024 * 1024
    """Large results and arguments that one turn stores outside of its commit: they are in memory until then."""

    object_state_bytes_max: int = 900_000
    """An object's state as JSON, which is stored in one record. A larger one needs `payloads: true`."""

    object_key_bytes_max: int = 800
    """An object's key. Together with its class it is an id in Firestore, and part of the paths of its messages."""

    call_attempts_max: int = 10
    """Starts of one call that end the process or raise a transient error, before the call is given up."""

    careful_deliveries: int = 2
    """The number of earlier deliveries of a wake-up from which its run applies one call at a time and counts its
    starts.
    """

    call_mark_seconds: int = 60
    """The time that a run may take for a call that it has marked, before another run may start the call."""

    call_followers_max: int = 40
    """Messages that wait for one call's outcome: continuations, and calls on its result. The commit of the outcome
    writes each of them.
    """

    call_silent_seconds: int = 3600
    """The time after a message was due until the sweeper wakes its object: the task of the message may be lost."""

    messages_swept_max: int = 50
    """Waiting messages that a sweep reads. Of n, each is read within about n / 50 minutes."""

    objects_listed_max: int = 100
    """Objects in one response. Each is a read."""


LIMITS = ObjectLimits()

"""All faults of mailboxes and objects; docs/protocols/objects.md explains each clause."""

from tests.simulation.faults.objects import callers, calls, mailbox, wake_ups

FAULTS = (
    *mailbox.FAULTS,
    *wake_ups.FAULTS,
    *calls.FAULTS,
    *callers.FAULTS,
)

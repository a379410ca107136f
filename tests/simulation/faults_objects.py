"""All faults of mailboxes and objects; docs/protocols/objects.md says what each clause is for."""

from tests.simulation import faults_objects_calls, faults_objects_mailbox, faults_objects_wake_ups

FAULTS = (
    *faults_objects_mailbox.FAULTS,
    *faults_objects_wake_ups.FAULTS,
    *faults_objects_calls.FAULTS,
)

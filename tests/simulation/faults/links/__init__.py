"""All faults of links and documents; docs/protocols/links.md says what each clause is for."""

from tests.simulation.faults.links import (
    copies,
    documents,
    grouped_reads,
    large_documents,
    late_events,
    own_writes,
    transforms,
    write_backs,
)

FAULTS = (
    *copies.FAULTS,
    *transforms.FAULTS,
    *documents.FAULTS,
    *late_events.FAULTS,
    *own_writes.FAULTS,
    *grouped_reads.FAULTS,
    *large_documents.FAULTS,
    *write_backs.FAULTS,
)

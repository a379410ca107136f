"""All faults of links and documents; docs/protocols/links.md says what each clause is for."""

from tests.simulation.faults.links import copies, documents, groups, large, late, own_writes, transforms, write_backs

FAULTS = (
    *copies.FAULTS,
    *transforms.FAULTS,
    *documents.FAULTS,
    *late.FAULTS,
    *own_writes.FAULTS,
    *groups.FAULTS,
    *large.FAULTS,
    *write_backs.FAULTS,
)

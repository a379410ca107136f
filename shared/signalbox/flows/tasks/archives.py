"""The task that writes the archive of a run that has ended, as lines of JSON.

The first line has the run, the others the entries of its log, in order. A large value is in a separate file, which is
written before; the archive has its size and its hash. The name contains the run's incarnation and
the number of its retries, since each end has its own file. A file that exists is not replaced. Readers find the
whole file or none.

    end: commit ──► task: write the file ──► commit: note it in the listing ──► the sweeper may remove the run
                      ▲      │ failed: a line of the severity ERROR
                      └──────┴── every ten minutes, by the sweeper

The guard of the note's commit is the header, and a removal needs the note. So each run that is removed has an archive.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import pause
from signalbox.core.ports import Conflict, Ports, Snapshot
from signalbox.core.times import rfc3339
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.log import shown_entry
from signalbox.flows.model.messages import Message, payload_of
from signalbox.flows.model.payloads import shown_values
from signalbox.flows.storage.commits import header_of
from signalbox.flows.storage.listings import archived_writes
from signalbox.flows.storage.log import read_log
from signalbox.mailboxes.model.messages import header_path
from signalbox.payloads.model import Payload, payloads_in, shown
from signalbox.payloads.service import read as read_payload

PART_BYTES_MAX = 400_000
"""Bytes of a large value in one row of its file. A row has at most 1 MiB, and JSON escapes some of its characters."""

WriteRows = Callable[[str, Iterable[Mapping[str, Any]]], object]
"""Write rows to a file, as a whole or not at all (`write_archive`)."""


def is_archive(payload: Mapping[str, Any]) -> bool:
    """Return whether a `flow_command` writes an archive."""
    return payload.get("act") == "archive"


def archive(ports: Ports, payload: Mapping[str, Any], write: WriteRows) -> None:
    """Write the archive of an ended run, and note it in the listing. The sweeper repeats a failed task."""
    address = FlowAddress.of_base(payload["flow"])
    [read] = ports.store.read(header_path(address.base))
    header = header_of(read, address)
    if header is None or header.ended_as != payload["run"] or not header.archive:
        return
    entries = read_log(ports.store, header).entries
    try:
        for named in payloads_of(header, entries):
            write(archive_of(header, named), parts_of(read_payload(ports, named)))
        write(header.archive, rows_of(read, header, entries))
    except Exception as error:  # noqa: BLE001  whatever the storage raises, the run is kept
        ports.log.error("run not archived", **address.to_json(), archive=header.archive, exception=error)
        return
    note(ports, read, header)


def note(ports: Ports, read: Snapshot, header: FlowHeader) -> None:
    """Note a written archive in the listing. If the run has been removed, another delivery has noted it before.

    If its header is changed each time, for instance by turns that drop late messages, the sweeper repeats the task.
    """
    for lost in range(CORE_LIMITS.rounds_max):
        with suppress(Conflict):
            ports.store.commit(archived_writes(read, header))
            return
        pause(ports, lost)
        [read] = ports.store.read(read.path)
        found = header_of(read, header.address)
        if found is None or found.ended_as != header.ended_as:
            return


def payloads_of(header: FlowHeader, entries: Sequence[Message]) -> list[Payload]:
    """Return the payloads that an archive names, each content once."""
    assert header.end is not None, "only a run that has ended has an archive"
    named = [*payloads_in(*header.arguments.values(), header.end.outcome.result), *map(payload_of, entries)]
    return list({payload.sha256: payload for payload in named if payload}.values())


def archive_of(header: FlowHeader, payload: Payload) -> str:
    """Return the name of the file of a large value, next to the archive that has its size and its hash."""
    return f"{header.archive.removesuffix('.ndjson')}~{payload.sha256}.ndjson"


def parts_of(content: bytes) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of the file of a large value: their texts together are its JSON."""
    for number, first in enumerate(range(0, len(content), PART_BYTES_MAX), 1):
        yield {"entry": "value", "number": number, "text": content[first : first + PART_BYTES_MAX].decode()}


def rows_of(read: Snapshot, header: FlowHeader, entries: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of an archive: the run, and the entries of its log with their numbers, from 1 on."""
    assert header.end is not None, "only a run that has ended has an archive"
    address = header.address.to_json()
    yield {
        **address,
        "entry": "run",
        "number": 0,
        "incarnation": header.incarnation,
        "generation": header.generation,
        **({"rewinds": header.rewinds} if header.rewinds else {}),
        "arguments": {name: shown(value) for name, value in header.arguments.items()},
        "labels": dict(header.labels),
        "state": header.state,
        **replace(header.end.outcome, result=shown(header.end.outcome.result)).to_json(),
        "started_at": rfc3339(read.create_time) if read.create_time else None,
        "ended_at": rfc3339(header.end.at),
        "log_length": len(entries),
    }
    for number, entry in enumerate(entries, 1):
        yield {**address, "number": number, **shown_entry(shown_values(entry))}

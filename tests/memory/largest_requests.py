"""The requests that take the most memory, and the records that they read. As a program, run one of them in a process.

python -m tests.memory.largest_requests REQUEST HOST PROJECT

prints, in bytes, the resident memory of a process that has served one ordinary request, and by how much the process's
peak exceeds that after this request.
"""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from signalbox.adapters import runtime
from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.core.ports import DocumentEvent, Ports, Put, Store
from signalbox.documents.machine import links
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.model import stamped_contents as model
from signalbox.documents.model.contents import Content, Surveyed
from signalbox.documents.model.stamped_contents import COLLECTION
from signalbox.links import tasks
from signalbox.links.model import Verification, verification_path
from signalbox.links.service import refreshes
from signalbox.testing.held_task_queue import HeldTaskQueue
from signalbox.testing.manual_clock import ManualClock
from signalbox.testing.recorded_log import RecordedLog
from signalbox.testing.simulated_cloud import FunctionTable

LARGE_BYTES = 300_000
TARGETS = 100
COPIES = 50
TEXT = "memory " * 12
RUN = "night"


def large(number: int) -> Content:
    """Return a content of about `LARGE_BYTES`."""
    return {f"field {index:04}": f"{TEXT}{number}" for index in range(LARGE_BYTES // (len(TEXT) + 15))}


def target(number: int) -> str:
    """Return the key of a large document that others link to."""
    return f"t{number:03}"


def tiny() -> Content:
    """Return a content with a link to each large document."""
    return {"links": [{"key": target(number)} for number in range(TARGETS)]}


def prepare(store: Store) -> None:
    """Store large documents, as many that embed the first of them, one that links to all, and a begun verification."""
    sources = {target(number): large(number) for number in range(TARGETS)}
    records = {key: record(key, content, {}) for key, content in sources.items()}
    first = target(0)
    records |= dict.fromkeys((f"u{n:03}" for n in range(COPIES)), record("u", {"x": {"key": first}}, {first: large(1)}))
    records["v"] = record("v", tiny(), {key: {} for key in sources})
    writes = [Put(f"{COLLECTION}/{key}", data) for key, data in records.items()]
    for start in range(0, len(writes), 10):
        outcomes = store.write_each(writes[start : start + 10])
        assert not any(isinstance(outcome, Exception) for outcome in outcomes), "a record was refused"
    now = datetime.now(UTC)
    store.commit([Put(verification_path(RUN), Verification(RUN, now, now, cursor="u").to_record())])


def record(key: str, content: Content, sources: Mapping[str, Content | None]) -> Mapping[str, Any]:
    """Return the record that a put leaves."""
    embedded = links.embed_links(key, Surveyed(content), Embedding(sources))
    stamped = model.stamped(None, embedded, "put", datetime.now(UTC), linked=True)
    return stamped.to_record()


def call(method: str, path: str, body: Any = None) -> None:
    """Call the function `documents` over HTTP, in this process."""
    answer = FunctionTable().app("documents").test_client().open(path, method=method, json=body, buffered=False)
    for _ in answer.iter_encoded():
        pass
    assert answer.status_code < 300, answer.status


def find(_: Ports) -> None:
    """Find a hundred large documents."""
    call("GET", f"/?limit={TARGETS}&where=key<u")


def put(_: Ports) -> None:
    """Put a tiny document that links to a hundred large ones."""
    call("PUT", "/p", tiny())


def put_many(_: Ports) -> None:
    """Put so many tiny documents that each link to a large one."""
    call("POST", "/", [{"key": f"q{number}", "x": {"key": target(number)}} for number in range(TARGETS)])


def page(ports: Ports) -> None:
    """Refresh a page of the documents that embed a large one."""
    tasks.run_link_task(ports, "page", {"event": "e", "work": {"key": target(0), "cursor": ""}})


def event(ports: Ports) -> None:
    """React to the event of a put that links to a hundred large ones."""
    [snapshot] = ports.store.read(f"{COLLECTION}/v")
    refreshes.fan_out(ports, DocumentEvent("e", COLLECTION, "v", f"{COLLECTION}/v", None, snapshot.data))


def verify(ports: Ports) -> None:
    """Verify a page of large documents and their targets."""
    tasks.verify(ports, {"run": RUN, "cursor": "u"})


REQUESTS: Mapping[str, Callable[[Ports], None]] = {
    each.__name__: each for each in (find, put, put_many, page, event, verify)
}


def peak_bytes() -> int:
    """Return the largest resident memory that this process has had. (`resource` counts that of its parent, too.)"""
    [line] = [line for line in Path("/proc/self/status").read_text("utf-8").splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def main() -> None:
    name, host, project = sys.argv[1:]
    with closing(FirestoreStore(project, "(default)", host)) as store:
        clock = ManualClock()
        runtime.bind(Ports(store, HeldTaskQueue(clock), clock, RecordedLog()))
        call("PUT", "/ordinary", {"n": 1})
        base = peak_bytes()
        REQUESTS[name](runtime.ports())
        peak = peak_bytes()
    sys.stdout.write(json.dumps({"base": base, "held": peak - base}))


if __name__ == "__main__":
    main()

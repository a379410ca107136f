"""Transactions over documents: read some, decide, then write and enqueue in one commit, or not at all.

Every document that was read is guarded by that read, even if it is not written. If a guard does not hold, the code runs
again on the current documents, a bounded number of times. The links of documents that are put are embedded as by a put,
from the documents that are stored when the code has returned.

Under a name, the commit also creates a receipt with the value that the code returned. So a repeat of the transaction,
and an attempt after a lost answer, find that it is done. The tasks are in the outbox record of the same commit.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.effects import Effect, name_of, receipt_path
from signalbox.core.keys import check_key
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import pause
from signalbox.core.ports import SERVER_TIME, Change, Conflict, Delete, Must, Ports, Put, Snapshot, Write
from signalbox.core.problems import Contended, OtherBody, TooLarge, Unavailable
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine.links import embed_links
from signalbox.documents.machine.reactions import WRITERS
from signalbox.documents.model.contents import Content, Surveyed
from signalbox.documents.model.stamped_contents import path_of
from signalbox.documents.problems import BadTransaction
from signalbox.documents.requests import PutRequest
from signalbox.documents.storage import embedded_copies
from signalbox.documents.storage.records import Found, needs_header, noted, read_whole
from signalbox.documents.storage.writes import deletion, put_write
from signalbox.history.model import HISTORY, header_path
from signalbox.payloads.model import is_large
from signalbox.payloads.service import stored_task

Returned = TypeVar("Returned")
Kind = TypeVar("Kind", bound="Transaction")


def not_read_yet(wanted: Iterable[str], read: Mapping[str, Snapshot]) -> list[str]:
    """Return the paths of documents that have not been read.

    A document is read only once, since a second read would replace the guard of the first read.
    """
    return [path_of(key) for key in dict.fromkeys(wanted) if key not in read]


class Transaction:
    """One attempt of a transaction: what it has read, and what it will write and enqueue."""

    def __init__(self, ports: Ports, name: str) -> None:
        self._ports = ports
        self._name = name
        self._read: dict[str, Snapshot] = {}
        self._contents: dict[str, Content | None] = {}
        self._calls: list[Call] = []
        self._follow_ups: list[Effect] = []
        self._replaced: dict[str, Found] = {}
        self._headers: Mapping[str, Snapshot] = {}
        self._attempt = 0

    def get(self, key: str) -> dict[str, Any] | None:
        """Return a document as it will be if this transaction commits, or None if there is none."""
        return self.get_many([key])[key]

    def get_many(self, wanted: list[str]) -> dict[str, dict[str, Any] | None]:
        """Return documents by their keys. Documents that are read by the same call are read at one instant."""
        self._load([check_key(key) for key in wanted if key not in self._contents])
        return {key: self._shown(key) for key in wanted}

    def put(self, key: str, document: Mapping[str, Any]) -> None:
        """Store a document with the commit, replacing the one under its key.

        Raises a `Problem` if it cannot be stored.
        """
        self._contents[key] = PutRequest.from_request(key, dict(document)).content.content
        self._check_size()

    def delete(self, key: str) -> None:
        """Delete a document with the commit. It need not exist."""
        self._contents[check_key(key)] = None
        self._check_size()

    def enqueue(self, call: Call) -> None:
        """Enqueue a call if, and only if, the transaction commits."""
        self._calls.append(call)

    # --- read ---

    def _load(self, wanted: list[str]) -> None:
        if missing := not_read_yet(wanted, self._read):
            self._read |= {read.id: read for read in read_whole(self._ports.store, missing)}
        self._check_size()

    def _shown(self, key: str) -> dict[str, Any] | None:
        """Return a separate copy of a document for the user's code, which may change it."""
        if key in self._contents:
            content = self._contents[key]
            return None if content is None else {"key": key, **json.loads(json.dumps(content))}
        read = self._read[key]
        return None if read.data is None else Found.of(read).stored.document

    def _check_size(self) -> None:
        if len({*self._read, *self._contents}) > LIMITS.transaction_documents_max:
            raise TooLarge(f"A transaction has at most {LIMITS.transaction_documents_max} documents.")

    # --- commit ---

    def commit(self, receipt: Put | None, attempt: int = 0) -> None:
        """Commit the writes and tasks. Raises `Conflict` if a document has changed since, or the receipt exists.

        From the second `attempt` on, counted from 0, the wanted notes of new documents are read.
        """
        self._attempt = attempt
        writes = [*self._writes(), *([receipt] if receipt else [])]
        effects = (*self._effects(), *self._follow_ups)
        if writes or effects:
            outbox.commit(self._ports, writes, effects)

    def _writes(self) -> Iterator[Write]:
        """Iterate over the writes. Each is guarded by its read; a document that was only read has a no-op with a guard.

        The contents are surveyed only now, since the code may change what it has put until it ends.
        """
        contents = {key: content if content is None else Surveyed(content) for key, content in self._contents.items()}
        inputs = self._inputs(contents)
        for key, content in contents.items():
            yield from self._write(key, content, inputs)
        for key, read in self._read.items():
            if key not in self._contents and read.update_time is not None:
                yield guarded_no_op(read)

    def _inputs(self, contents: Mapping[str, Surveyed | None]) -> tuple[Snapshot, ...]:
        """Return the inputs of the links of all puts, read at one instant with the documents that were not read yet.

        A document that is deleted is read only if it may have a history, or if its deletion has no event.
        """
        puts = {key: content for key, content in contents.items() if content is not None}
        unread = [key for key in contents if key not in self._read]
        own = [path_of(key) for key in unread if key in puts or HISTORY.may_apply(key) or WRITERS.only_the_kit]
        inputs = [path for content in puts.values() for path in embedded_copies.input_paths(content)]
        paths = list(dict.fromkeys([*own, *inputs]))
        records = read_whole(self._ports.store, paths)
        self._read |= {record.id: record for record in records if record.path in own}
        store, again = self._ports.store, self._attempt > 0
        replaced = (key for key in contents if key in self._read)
        self._replaced = {key: noted(store, Found.of(self._read[key]), again=again) for key in replaced}
        needed = [header_path(key) for key, found in self._replaced.items() if needs_header(found, contents[key])]
        self._headers = {header.id: header for header in read_whole(store, needed)}
        return tuple(record for record in records if record.path in inputs)

    def _write(self, key: str, content: Surveyed | None, inputs: tuple[Snapshot, ...]) -> Sequence[Write]:
        found, header = self._replaced.get(key), self._headers.get(key)
        if content is not None:
            assert found is not None, "what is put has been read"
            embedded = embed_links(key, content, embedded_copies.embedding_from(inputs))
            put = put_write(found, embedded, header=header)
            self._follow_ups += put.effects
            return put.writes
        if found is None or found.document is None:
            return (Delete(path_of(key), Must.NOT_EXIST if WRITERS.only_the_kit else None),)
        deleted = deletion(found, header)
        self._follow_ups += deleted.effects
        return deleted.writes

    def _effects(self) -> Iterator[Effect]:
        """Iterate over the tasks, each with a name derived from this transaction's. Large arguments are stored."""
        needs_time = any(call.delay_seconds or is_large(call.payload) for call in self._calls)
        if needs_time and not self._read:
            self._load([self._name])
        now = max((read.read_time for read in self._read.values()), default=None)
        for number, call in enumerate(self._calls):
            task = call.effect(name_of("transaction", self._name, number), now)
            yield stored_task(self._ports, task, now) if now else task


def guarded_no_op(read: Snapshot) -> Write:
    """Return a write that changes nothing in a record. It fails if the record has changed since its read."""
    return Change(read.path, {}, read.guard)


def run_transaction(
    ports: Ports,
    code: Callable[[Kind], Returned],
    name: str = "",
    *,
    digest: str = "",
    is_new: bool = False,
    kind: type[Kind],
) -> Returned:
    """Run code in a transaction, and return its result. Raises the errors of the code, and `Contended`.

    With a `name`, the transaction takes effect once for this name. Raises `OtherBody` if it took effect with another
    `digest`. `is_new` means that it cannot have taken effect before this call. Without a name, `Unavailable` means that
    it is not known whether it took effect.
    """
    for attempt in range(CORE_LIMITS.rounds_max):
        if name and (attempt or not is_new) and (done := _done(ports, name)) is not None:
            check_repeated(done, digest)
            returned: Returned = json.loads(done["result"])
            return returned
        transaction = kind(ports, name or ports.store.new_id())
        returned = code(transaction)
        try:
            transaction.commit(receipt_of(name, returned, digest) if name else None, attempt)
        except Conflict:
            pause(ports, attempt)
        except Unavailable:
            if not name:
                raise
            pause(ports, attempt)
        else:
            return returned
    raise Contended(f"the documents of a transaction are written by many at once {name}".strip())


def check_repeated(receipt: Mapping[str, Any], digest: str) -> None:
    """Raise `OtherBody` if the receipt belongs to another transaction."""
    if receipt.get("digest", digest) != digest:
        raise OtherBody(
            "Another transaction, or this one with other values, took effect under this id. Choose an `id` that names "
            "what the transaction does. In a task, also read documents inside the transaction, not before it, and pass "
            "values that differ as arguments, not in module variables.",
            field="id",
        )


def _done(ports: Ports, name: str) -> Mapping[str, Any] | None:
    """Return the receipt of an earlier attempt, or None if there was none."""
    [read] = ports.store.read(receipt_path(name))
    return read.data


def receipt_of(name: str, returned: object, digest: str = "") -> Put:
    try:
        result = json.dumps(returned, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadTransaction(f"What a transaction returns must be JSON: {error}.") from error
    if len(result) > CORE_LIMITS.result_bytes_max:
        raise TooLarge(f"A transaction returns at most {CORE_LIMITS.result_bytes_max:,} bytes.")
    record = {"result": result, "digest": digest, "written_at": SERVER_TIME}
    return Put(receipt_path(name), record, Must.NOT_EXIST)

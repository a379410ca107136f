"""Transactions over documents: read some, decide, write and enqueue in one commit, or nothing of it.

Every document that was read is guarded by that read, also one that is not written. When a guard does not hold, the code
runs again on what is then there, a bounded number of times. The links of what is put are embedded as a put embeds them,
from what is stored when the code has returned.

Under a `receipt`, the commit also creates that record, with what the code returned. So a repeat, and an attempt that
follows a lost answer, recognise what is done. The tasks are in the outbox record of the same commit.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from shared.core.operations import outbox
from shared.core.operations.perform import Contended, pause
from shared.core.operations.ports import SERVER_TIME, Change, Conflict, Delete, Must, Ports, Put, Snapshot, Write
from shared.core.rules import keys
from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadTransaction, TooLarge, Unavailable
from shared.core.rules.receipts import receipt_path
from shared.documents.operations import link_inputs
from shared.documents.operations.document_reads import Loaded, read_whole
from shared.documents.operations.document_writes import deletion, goes_on_from_header, put_write
from shared.documents.operations.stored_documents import StoredDocument
from shared.documents.rules.documents import Content, path_of
from shared.documents.rules.requests import PutRequest
from shared.history.rules.entries import header_path
from shared.history.rules.selection import HISTORY

Returned = TypeVar("Returned")
Kind = TypeVar("Kind", bound="Transaction")


class Transaction:
    """One attempt of a transaction: what it has read, and what it will write and enqueue."""

    def __init__(self, ports: Ports, name: str) -> None:
        self._ports = ports
        self._name = name
        self._read: dict[str, Snapshot] = {}
        self._contents: dict[str, Content | None] = {}
        self._calls: list[Call] = []
        self._follow_ups: list[Effect] = []
        self._headers: Mapping[str, Snapshot] = {}

    def get(self, key: str) -> dict[str, Any] | None:
        """Return a document as it will be if this transaction commits, or None if there is none."""
        return self.get_many([key])[key]

    def get_many(self, wanted: list[str]) -> dict[str, dict[str, Any] | None]:
        """Return documents by their keys; those read by one call are of one instant."""
        self._load([keys.check_key(key) for key in wanted if key not in self._contents])
        return {key: self._shown(key) for key in wanted}

    def put(self, key: str, document: Mapping[str, Any]) -> None:
        """Store a document with the commit, replacing what its key holds then. Raises a `Problem` if it cannot be."""
        self._contents[key] = PutRequest.from_request(key, dict(document)).content
        self._check_size()

    def delete(self, key: str) -> None:
        """Delete a document with the commit; one that does not exist is no error."""
        self._contents[keys.check_key(key)] = None
        self._check_size()

    def enqueue(self, call: Call) -> None:
        """Enqueue a call if, and only if, the transaction commits."""
        self._calls.append(call)

    # --- read ---

    def _load(self, wanted: list[str]) -> None:
        missing = [path_of(key) for key in dict.fromkeys(wanted) if key not in self._read]
        if missing:
            self._read |= {read.id: read for read in read_whole(self._ports.store, missing)}
        self._check_size()

    def _shown(self, key: str) -> dict[str, Any] | None:
        if key in self._contents:
            content = self._contents[key]
            return None if content is None else {"key": key, **json.loads(json.dumps(content))}
        read = self._read[key]
        return None if read.data is None else StoredDocument.from_snapshot(read).document

    def _check_size(self) -> None:
        if len({*self._read, *self._contents}) > LIMITS.transaction_documents_max:
            raise TooLarge(f"A transaction has at most {LIMITS.transaction_documents_max} documents.")

    # --- commit ---

    def commit(self, receipt: Put | None) -> None:
        """Commit what is to be written. Raises `Conflict` if what was read has changed, or the receipt exists."""
        writes = [*self._writes(), *([receipt] if receipt else [])]
        effects = (*self._effects(), *self._follow_ups)
        if writes or effects:
            outbox.commit(self._ports, writes, effects)

    def _writes(self) -> Iterator[Write]:
        """Iterate over the writes, each under the guard of its read; what was only read is guarded by a no-op."""
        inputs = self._inputs()
        for key, content in self._contents.items():
            yield from self._write(key, content, inputs)
        for key, read in self._read.items():
            if key not in self._contents and read.update_time is not None:
                yield guarded_no_op(read)

    def _inputs(self) -> tuple[Snapshot, ...]:
        """Read what is put without having been read, and what the links of all puts are filled from, at one instant.

        And what is deleted, if it may have a history.
        """
        puts = {key: content for key, content in self._contents.items() if content is not None}
        unread = [key for key in self._contents if key not in self._read]
        own = [path_of(key) for key in unread if key in puts or HISTORY.may_apply(key)]
        inputs = [path for content in puts.values() for path in link_inputs.input_paths(content)]
        paths = list(dict.fromkeys([*own, *inputs]))
        read = read_whole(self._ports.store, paths)
        self._read |= {each.id: each for each in read if each.path in own}
        self._headers = self._log_headers()
        return tuple(each for each in read if each.path in inputs)

    def _log_headers(self) -> Mapping[str, Snapshot]:
        """Read the headers of the logs that need them."""
        written = [(key, self._read[key], content) for key, content in self._contents.items() if key in self._read]
        needed = [header_path(key) for key, read, content in written if goes_on_from_header(read, content)]
        return {each.id: each for each in read_whole(self._ports.store, needed)}

    def _write(self, key: str, content: Content | None, inputs: tuple[Snapshot, ...]) -> Sequence[Write]:
        if content is not None:
            loaded = Loaded(self._read[key], link_inputs.embedding_from(inputs))
            put = put_write(loaded.own, loaded.embed(content), header=self._headers.get(key))
            self._follow_ups += put.effects
            return put.writes
        read = self._read.get(key)
        if read is None or read.data is None:
            return (Delete(path_of(key)),)
        deleted = deletion(read, self._headers.get(key))
        self._follow_ups += deleted.effects
        return deleted.writes

    def _effects(self) -> Iterator[Effect]:
        """Iterate over the tasks, each under a name of this transaction."""
        later = any(call.delay_seconds for call in self._calls)
        if later and not self._read:
            self._load([self._name])
        now = max((read.read_time for read in self._read.values()), default=None)
        for number, call in enumerate(self._calls):
            assert now is not None or not call.delay_seconds, "read above"
            yield call.effect(name_of("transaction", self._name, number), now)  # type: ignore[arg-type]


def guarded_no_op(read: Snapshot) -> Write:
    """Return the write that changes nothing of a record, and fails if it is no longer as it was read."""
    return Change(read.path, {}, read.guard)


def run(
    ports: Ports, code: Callable[[Kind], Returned], name: str = "", *, is_new: bool = False, kind: type[Kind]
) -> Returned:
    """Run code in a transaction, and return what it returned. Raises what it raises, and `Contended`.

    With a `name`, it takes effect once for this name; `is_new`: nothing can have been done under it when this begins.
    Without one, `Unavailable` means that it may have taken effect or not.
    """
    for attempt in range(LIMITS.rounds_max):
        if name and (attempt or not is_new) and (done := _done(ports, name)) is not None:
            returned: Returned = json.loads(done)
            return returned
        transaction = kind(ports, name or ports.store.new_id())
        returned = code(transaction)
        try:
            transaction.commit(_receipt(name, returned) if name else None)
        except Conflict:
            pause(ports, attempt)
        except Unavailable:
            if not name:
                raise
            pause(ports, attempt)
        else:
            return returned
    raise Contended(f"the documents of a transaction are written by many at once {name}".strip())


def _done(ports: Ports, name: str) -> str | None:
    """Return what an earlier attempt returned, as JSON; None if there was none."""
    [read] = ports.store.read(receipt_path(name))
    return None if read.data is None else str(read.data["result"])


def _receipt(name: str, returned: object) -> Put:
    try:
        result = json.dumps(returned, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadTransaction(f"What a transaction returns must be JSON: {error}.") from error
    if len(result) > LIMITS.result_bytes_max:
        raise TooLarge(f"A transaction returns at most {LIMITS.result_bytes_max:,} bytes.")
    return Put(receipt_path(name), {"result": result, "written_at": SERVER_TIME}, Must.NOT_EXIST)

"""The same fan-out by bare calls of the generated client: what no kit on top of Firestore can beat.

Pages of embedding documents by one query each, every write under the guard of what was read, a page's writes in one
BatchWrite. No queue, no events, no second read of the source: it is incorrect under concurrency, only fast.
"""

from typing import Any

import grpc
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcTransport
from google.cloud.firestore_v1.types import Write
from google.cloud.firestore_v1.types import firestore as types
from google.cloud.firestore_v1.types.query import StructuredQuery

from signalbox.links.model import LINK_KEYS
from tests.bench.bench_stack import TARGET

COLLECTION = "bare"
PAGE_COPIES = 400
METADATA = (("authorization", "Bearer owner"),)
ASCENDING = StructuredQuery.Direction.ASCENDING
ARRAY_CONTAINS = StructuredQuery.FieldFilter.Operator.ARRAY_CONTAINS


class Bare:
    """A client that copies the target into the documents that embed it, in one collection of an emulator."""

    def __init__(self, host: str, project: str) -> None:
        self._transport = FirestoreGrpcTransport(channel=grpc.insecure_channel(host))
        self._client = FirestoreClient(transport=self._transport)
        self._database = f"projects/{project}/databases/(default)"
        self._root = f"{self._database}/documents"

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def fan_out(self) -> int:
        """Refresh every copy of the target; return how many."""
        source = self._source()
        refreshed = 0
        page = self._page("")
        while page:
            self._write([_write(document, source) for document in page])
            refreshed += len(page)
            page = self._page(page[-1].name)
        return refreshed

    def _source(self) -> Any:
        name = f"{self._root}/{COLLECTION}/{TARGET}"
        request = types.BatchGetDocumentsRequest(database=self._database, documents=[name])
        [answer] = self._client.batch_get_documents(request, metadata=METADATA)
        return types.BatchGetDocumentsResponse.pb(answer).found

    def _page(self, after: str) -> list[Any]:
        query = StructuredQuery.pb()(limit={"value": PAGE_COPIES})
        query.from_.add(collection_id=COLLECTION)
        query.where.field_filter.field.field_path = ".".join(LINK_KEYS)
        query.where.field_filter.op = ARRAY_CONTAINS
        query.where.field_filter.value.string_value = TARGET
        query.order_by.add(direction=ASCENDING).field.field_path = "__name__"
        if after:
            query.start_at.values.add(reference_value=after)
        request = types.RunQueryRequest.pb()(parent=self._root, structured_query=query)
        answers = self._client.run_query(types.RunQueryRequest.wrap(request), metadata=METADATA)
        found = (types.RunQueryResponse.pb(answer) for answer in answers)
        return [answer.document for answer in found if answer.HasField("document")]

    def _write(self, writes: list[Any]) -> None:
        request = types.BatchWriteRequest.pb()(database=self._database, writes=writes)
        answer = self._client.batch_write(types.BatchWriteRequest.wrap(request), metadata=METADATA)
        assert not any(status.code for status in types.BatchWriteResponse.pb(answer).status), "a write did not land"


def _write(document: Any, source: Any) -> Any:
    write = Write.pb()()
    write.update.CopyFrom(document)
    copy = write.update.fields[TARGET].map_value.fields
    for name, value in source.fields.items():
        copy[name].CopyFrom(value)
    write.current_document.update_time.CopyFrom(document.update_time)
    return write

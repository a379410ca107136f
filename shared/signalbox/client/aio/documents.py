"""Documents, their versions, transforms of links, and verifications."""

import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from signalbox.client.aio.lease_renewal import sleep
from signalbox.client.aio.list_pages import pages
from signalbox.client.aio.transport import Transport
from signalbox.client.answers import Answer
from signalbox.client.load_groups import Group
from signalbox.client.model import Document, Json, LoadReport
from signalbox.client.requests import conditions, json_bytes, keyed
from signalbox.core.given import given

Condition = str | Sequence[Json]
"""A condition as in an address (``"address.zipcode==12345"``), or its field, operator and value."""

NDJSON = "application/x-ndjson"
LOAD_RETRIES_MAX = 8
"""Rounds of a load's group after which a document that is still unavailable is reported as refused."""


class Documents:
    """The documents of a deployment, each a mapping of its fields under a key."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, key: str) -> Document:
        """Return a document with its copies. Raises `NotFound`."""
        return await self._document("GET", "documents", key)

    async def put(
        self, key: str, content: Mapping[str, Json], *, if_match: str | None = None, if_none_match: str | None = None
    ) -> Document:
        """Store a document, replacing the one of its key.

        With `if_match`, the stored one must have this ETag; with `if_none_match="*"`, there must be none. Otherwise
        this raises `PreconditionFailed`.
        """
        headers = conditions(if_match, if_none_match)
        return await self._document("PUT", "documents", key, body=dict(content), headers=headers)

    async def add(self, content: Mapping[str, Json]) -> Document:
        """Store a document under its `key`, or under a new key if it has none."""
        return await self._document("POST", "documents", body=dict(content), headers=keyed(str(uuid.uuid4())))

    async def merge(
        self, key: str, changes: Mapping[str, Json], *, write_back: bool = False, if_match: str | None = None
    ) -> Document:
        """Merge objects deeply into a document, or create it.

        With `write_back`, a change inside a copy changes its source.
        """
        options: Any = {"parameters": {"write_back": True}} if write_back else {}
        return await self._document(
            "PATCH", "documents", key, body=dict(changes), headers=conditions(if_match), **options
        )

    async def patch(self, key: str, changes: Mapping[str, Json], *, if_match: str | None = None) -> Document:
        """Apply a JSON Merge Patch (RFC 7396): a null removes a field."""
        return await self._document(
            "PATCH",
            "documents",
            key,
            body=dict(changes),
            headers=conditions(if_match),
            media_type="application/merge-patch+json",
        )

    async def delete(self, key: str, *, if_match: str | None = None) -> None:
        """Delete a document. Raises `NotFound`."""
        await self._transport.json("DELETE", "documents", key, headers=conditions(if_match))

    def find(self, *where: Condition, order_by: str | None = None, limit: int | None = None) -> AsyncIterator[Document]:
        """Iterate over the documents that meet all conditions, page by page. `limit`: the size of a page."""
        return self._found(_query(where, order_by, limit))

    async def first(self, *where: Condition, order_by: str | None = None) -> Document | None:
        """Return the first document that meets all conditions, or None. This costs one read."""
        page = await self._transport.send("POST", "documents", ":query", body=_query(where, order_by, 1))
        return next(_documents(page), None)

    async def _found(self, query: dict[str, Any]) -> AsyncIterator[Document]:
        token = None
        while True:
            page = await self._transport.send("POST", "documents", ":query", body=query | given(page_token=token))
            for document in _documents(page):
                yield document
            if (token := page.shaped(dict).get("next_page_token")) is None:
                return

    async def page(
        self, *where: str, order_by: str | None = None, limit: int | None = None, page_token: str | None = None
    ) -> dict[str, Json]:
        """Return one page of a query as the function answers it. The conditions are in the address, and so in logs."""
        parameters = {"where": where, **given(order_by=order_by, limit=limit, page_token=page_token)}
        found = await self._transport.send("GET", "documents", parameters=parameters)
        return found.shaped(dict)

    async def count(self, *where: Condition) -> int:
        """Return the number of documents that meet all conditions."""
        body = _query(where, None, None) | {"count": True}
        found = await self._transport.send("POST", "documents", ":query", body=body)
        return found.member("count", int)

    async def load(self, documents: Iterable[Mapping[str, Json]]) -> LoadReport:
        """Store documents that have keys, up to 500 a request; memory holds one request. Refusals are reported."""
        report, group = LoadReport(), Group()
        for document in documents:
            line = json_bytes(document) + b"\n"
            if not group.takes(line):
                await self._load(group, report)
                group = Group()
            group.add(document.get("key"), line)
        if group.documents:
            await self._load(group, report)
        return report

    async def _load(self, group: Group, report: LoadReport) -> None:
        """Store a group, and retry those of its documents that were unavailable."""
        for round_number in range(LOAD_RETRIES_MAX):
            answer = await self._transport.send("POST", "documents", body=group.content, media_type=NDJSON)
            results, left = answer.items("results"), Group()
            if len(results) != len(group.documents):
                raise answer.unreadable("has not a result for each document")
            for (key, line), result in zip(group.documents, results, strict=True):
                status = result.member("status", int)
                if status < 300:
                    report.stored += 1
                elif status == 503 and round_number < LOAD_RETRIES_MAX - 1:
                    left.add(key, line)
                else:
                    report.refused.append((key, result.part("problem").shaped(dict)))
            if not left.documents:
                return
            group = left
            await sleep(0.1 * 2**round_number)

    def versions(self, key: str) -> AsyncIterator[dict[str, Json]]:
        """Iterate over the versions of a document, the latest first."""
        return pages(self._transport, "versions", "documents", key, "versions")

    async def version(self, key: str, version: int | str) -> dict[str, Json]:
        """Return a version of a document with its content, by its number or by a time (RFC 3339)."""
        found = await self._transport.send("GET", "documents", key, "versions", version)
        return found.shaped(dict)

    async def changes(self, key: str, version: int | str, to: int | str | None = None) -> list[dict[str, Json]]:
        """Return the changes from one version to another, or to the latest, as a JSON Patch (RFC 6902)."""
        parameters = {"to": to}
        found = await self._transport.send(
            "GET", "documents", key, "versions", version, "changes", parameters=parameters
        )
        return found.member("patch", list)

    async def restore(self, key: str, version: int | str, *, if_match: str | None = None) -> Document:
        """Store the content of a version again."""
        return await self._document(
            "POST", "documents", key, "versions", version, "restore", headers=conditions(if_match)
        )

    async def forget_versions(self, key: str) -> None:
        """Delete all versions of a document; its content stays."""
        await self._transport.json("DELETE", "documents", key, "versions")

    async def _document(self, *arguments: Any, **options: Any) -> Document:
        found = await self._transport.send(*arguments, **options)
        return Document(found.shaped(dict), found.headers.get("ETag"))


def _documents(page: Answer) -> Iterator[Document]:
    return (Document(found.shaped(dict)) for found in page.items("documents"))


def _query(where: Iterable[Condition], order_by: str | None, limit: int | None) -> dict[str, Any]:
    terms = [each if isinstance(each, str) else list(each) for each in where]
    return {"where": terms, **given(order_by=order_by and [order_by], limit=limit)}


class Transforms:
    """The transforms of links, by the name of the field."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def put(self, name: str, transform: Json) -> Json:
        """Set the transform of links in a field; the documents with such links are refreshed."""
        return await self._transport.json("PUT", "transforms", name, body=transform)

    async def get(self, name: str) -> Json:
        """Return a transform. Raises `NotFound`."""
        return await self._transport.json("GET", "transforms", name)

    async def delete(self, name: str) -> None:
        """Delete a transform. Raises `NotFound`."""
        await self._transport.json("DELETE", "transforms", name)

    def list(self) -> AsyncIterator[dict[str, Json]]:
        """Iterate over the transforms by name."""
        return pages(self._transport, "transforms", "transforms")


class Verifications:
    """Comparisons of all copies with their sources."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def begin(self) -> dict[str, Json]:
        """Begin a verification, or return the running one."""
        found = await self._transport.send("POST", "verifications", headers=keyed(str(uuid.uuid4())))
        return found.shaped(dict)

    async def get(self, run: str) -> dict[str, Json]:
        """Return the report of a verification. Raises `NotFound`."""
        found = await self._transport.send("GET", "verifications", run)
        return found.shaped(dict)

    async def list(self) -> list[dict[str, Json]]:
        """Return the last verifications, newest first."""
        found = await self._transport.send("GET", "verifications")
        return found.member("verifications", list)

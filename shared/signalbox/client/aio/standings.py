"""Yokes, and the standings that are counted from them."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

from signalbox.client.aio.list_pages import pages
from signalbox.client.aio.transport import Transport
from signalbox.client.answer_types import StandingShown
from signalbox.client.model import Json
from signalbox.client.requests import MISSING, keyed
from signalbox.core.given import given


class Yokes:
    """The yokes of a deployment: a user, an item, and a value."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def put(
        self, user: str, item: str, value: float | None = MISSING, attributes: dict[str, Json] | None = None
    ) -> dict[str, Json]:
        """Let a user yoke an item, or change the value. An equal call changes nothing."""
        body: dict[str, Any] = {} if value is MISSING else {"value": value}
        body |= given(attributes=attributes)
        found = await self._transport.send("PUT", "yokes", user, item, body=body)
        return found.shaped(dict)

    async def get(self, user: str, item: str) -> dict[str, Json]:
        """Return a yoke. Raises `NotFound`."""
        found = await self._transport.send("GET", "yokes", user, item)
        return found.shaped(dict)

    async def delete(self, user: str, item: str) -> None:
        """Delete a yoke, if there is one."""
        await self._transport.json("DELETE", "yokes", user, item)

    def list(
        self, *, user: str | None = None, item: str | None = None, order_by: str | None = None
    ) -> AsyncIterator[dict[str, Json]]:
        """Iterate over the yokes of a user or of an item, the newest first, or the largest value."""
        parameters = {"user": user, "item": item, "order_by": order_by}
        return pages(self._transport, "yokes", "yokes", parameters=parameters)

    async def delete_all(self, *, user: str | None = None, item: str | None = None) -> None:
        """Delete all yokes of a user or of an item; the standings follow."""
        await self._transport.json("DELETE", "yokes", parameters={"user": user, "item": item})


class Standings:
    """The standings of a deployment."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def kinds(self) -> dict[str, dict[str, Json]]:
        """Return the declared kinds, by name."""
        found = await self._transport.send("GET", "standings")
        return found.member("kinds", dict)

    async def declare(
        self, kind: str, by: list[str] | None = None, on_threshold: list[dict[str, Json]] | None = None
    ) -> dict[str, Json]:
        """Declare a kind of standing; existing yokes are counted for it."""
        body = given(by=by, on_threshold=on_threshold)
        found = await self._transport.send("PUT", "standings", kind, body=body)
        return found.shaped(dict)

    async def remove(self, kind: str) -> None:
        """Remove a kind; its yokes are subtracted from its standings. Raises `NotFound`."""
        await self._transport.json("DELETE", "standings", kind)

    def list(self, kind: str, *, order_by: str | None = None) -> AsyncIterator[StandingShown]:
        """Iterate over the standings of a kind, the largest first."""
        return pages(self._transport, "standings", "standings", kind, parameters={"order_by": order_by})

    async def get(self, kind: str, id: str) -> StandingShown:
        """Return the numbers of a standing. Raises `NotFound` for an undeclared kind."""
        found = await self._transport.send("GET", "standings", kind, id)
        return found.shaped(StandingShown)

    async def rank(
        self, kind: str, id: str, *, order_by: str | None = None, neighbours: int | None = None
    ) -> dict[str, Json]:
        """Return the rank of a standing, and its neighbours."""
        parameters = given(order_by=order_by, neighbours=neighbours)
        found = await self._transport.send("GET", "standings", kind, id, "rank", parameters=parameters)
        return found.shaped(dict)

    async def recount(self, kind: str, id: str) -> None:
        """Recount a standing from its yokes, and repair it."""
        await self._transport.json("POST", "standings", kind, id, "recount")

    async def recount_all(self) -> None:
        """Count all yokes again, and recount all standings."""
        await self._transport.json("POST", "standings", headers=keyed(str(uuid.uuid4())))

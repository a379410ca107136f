"""Rates: permits that become free again as time passes."""

import uuid
from collections.abc import AsyncIterator

from signalbox.client.aio.list_pages import pages
from signalbox.client.aio.transport import Transport
from signalbox.client.model import Json, TaskCall
from signalbox.core.given import given


class Rate:
    """A rate of a deployment, by its name."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport = transport
        self.name = name

    async def ensure(self, per_minute: float, burst: int = 1, description: str | None = None) -> dict[str, Json]:
        """Create the rate or set its limits and the description. Waits stay."""
        body = {"per_minute": per_minute, "burst": burst, **given(description=description)}
        found = await self._transport.send("PUT", "rates", self.name, body=body)
        return found.shaped(dict)

    async def change(
        self, *, per_minute: float | None = None, burst: int | None = None, description: str | None = None
    ) -> dict[str, Json]:
        """Change some settings. Raises `NotFound`."""
        body = given(per_minute=per_minute, burst=burst, description=description)
        found = await self._transport.send("PATCH", "rates", self.name, body=body)
        return found.shaped(dict)

    async def show(self) -> dict[str, Json]:
        """Return the limits, the permits that are free, and the number of waits. Raises `NotFound`."""
        found = await self._transport.send("GET", "rates", self.name)
        return found.shaped(dict)

    async def pause(self) -> dict[str, Json]:
        """Grant no permits until `resume`; waits stay in their order. Raises `NotFound`."""
        found = await self._transport.send("POST", "rates", self.name, "pause")
        return found.shaped(dict)

    async def resume(self) -> dict[str, Json]:
        """Grant permits again, to those that wait first. Raises `NotFound`."""
        found = await self._transport.send("POST", "rates", self.name, "resume")
        return found.shaped(dict)

    async def delete(self) -> None:
        """Delete the rate; its waits end. Raises `NotFound`."""
        await self._transport.json("DELETE", "rates", self.name)

    async def acquire(self, weight: int = 1, *, id: str | None = None) -> float:
        """Take permits if they are free now, and return 0. Otherwise return the seconds after which to try again."""
        body = {"weight": weight, "id": id or str(uuid.uuid4())}
        found = await self._transport.send("POST", "rates", self.name, "acquire", body=body)
        return 0.0 if found.member("granted", bool) else found.member("retry_after_seconds", float)

    async def wait(self, continuation: TaskCall, *, weight: int = 1, id: str | None = None) -> str:
        """Let a task run once permits are granted; return the wait's id. `id` makes a repeat the same wait."""
        body = {"continuation": continuation, "weight": weight, "id": id or str(uuid.uuid4())}
        found = await self._transport.send("POST", "rates", self.name, "waits", body=body)
        return found.member("id", str)

    async def cancel(self, id: str) -> bool:
        """End a wait. Returns whether its task will not run."""
        found = await self._transport.send("DELETE", "rates", self.name, "waits", id)
        return found.member("cancelled", bool)


class Rates:
    """The rates of a deployment."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, prefix: str | None = None) -> AsyncIterator[dict[str, Json]]:
        """Iterate over the rates by name: all, or those whose names begin with `prefix`."""
        return pages(self._transport, "rates", "rates", parameters={"prefix": prefix})

"""Lists that come in pages."""

from collections.abc import AsyncIterator, Mapping

from signalbox.client.aio.transport import Transport
from signalbox.client.model import Json


async def pages(
    transport: Transport, name: str, *segments: object, parameters: Mapping[str, object] | None = None
) -> AsyncIterator[Json]:
    """Iterate over the items of all pages; `name` is the field of a page that has them."""
    token = None
    while True:
        page = await transport.send("GET", *segments, parameters={**(parameters or {}), "page_token": token})
        for item in page.items(name):
            yield item.shaped(dict)
        if (token := page.shaped(dict).get("next_page_token")) is None:
            return

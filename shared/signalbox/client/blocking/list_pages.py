# Generated from client/aio/list_pages.py by `make docs`: change that one.
"""Lists that come in pages."""

from collections.abc import Iterator, Mapping

from signalbox.client.blocking.transport import Transport
from signalbox.client.model import Json


def pages(
    transport: Transport, name: str, *segments: object, parameters: Mapping[str, object] | None = None
) -> Iterator[Json]:
    """Iterate over the items of all pages; `name` is the field of a page that has them."""
    token = None
    while True:
        page = transport.send("GET", *segments, parameters={**(parameters or {}), "page_token": token})
        for item in page.items(name):
            yield item.shaped(dict)
        if (token := page.shaped(dict).get("next_page_token")) is None:
            return

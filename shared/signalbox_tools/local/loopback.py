"""Distinguish requests of this machine's programs from those of web pages, which a browser can also send here."""

import re

from aiohttp import web
from aiohttp.typedefs import Handler

HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)


def names_this_machine(host: str) -> bool:
    """Return whether a header `Host` names this machine. A page's host name may also resolve to it (DNS rebinding)."""
    return HOST.fullmatch(host) is not None


@web.middleware
async def programs_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse the requests of web pages: those with another host's name, or a header that only browsers add."""
    if not names_this_machine(request.headers.get("Host", "")) or request.headers.keys() & {"Origin", "Sec-Fetch-Site"}:
        raise web.HTTPForbidden(text="web pages may not call this")
    return await handler(request)

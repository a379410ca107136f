"""Refuse web pages, whose requests a browser can also send to the services of the local stack."""

from aiohttp import web
from aiohttp.typedefs import Handler

from signalbox_tools.local.host_names import names_this_machine


@web.middleware
async def programs_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse the requests of web pages: those with another host's name, or a header that only browsers add."""
    if not names_this_machine(request.headers.get("Host", "")) or request.headers.keys() & {"Origin", "Sec-Fetch-Site"}:
        raise web.HTTPForbidden(text="web pages may not call this")
    return await handler(request)

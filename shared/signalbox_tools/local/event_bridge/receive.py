"""The receiving half: acknowledge an event as soon as it is stored.

The emulator sends one event at a time, waits for the response, and never repeats a failed one. So this half does
nothing that could block or fail. It listens on a socket that the local stack holds open: while it is being restarted,
the next event waits in the socket's backlog.

The time of a response limits the rate of all events, and so the time that a change waits behind a bulk load. This half
takes an eighth of a fan-out's processor time; reading HTTP without a library would save 3 % of that time.

Two kinds of event are lost: the one in flight when this half is killed, and those of documents whose key contains a
control character, which the emulator writes into its headers unescaped.

One trigger belongs to the stack. A *marker* is a document written only for its event: the emulator sends events in
commit order, so when a marker has arrived, the events of all earlier commits are stored.
"""

from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Handler

from signalbox_tools.local.event_bridge import cloudevent
from signalbox_tools.local.event_bridge.inbox import Inbox
from signalbox_tools.local.event_bridge.markers import MARKER_FIELD, MARKER_TRIGGER
from signalbox_tools.local.loopback import programs_only

BODY_BYTES_MAX = 8 * 2**20
"""The size of two documents of 1 MiB in base64, with room to spare."""


class Receiver:
    """Receives events of the known triggers from the emulator."""

    def __init__(self, inbox: Inbox, triggers: Collection[str]) -> None:
        self._inbox = inbox
        self._triggers = frozenset(triggers)
        self._marker = 0

    def application(self) -> web.Application:
        application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[programs_only, _closing])
        application.router.add_post("/functions/projects/{project}/triggers/{trigger}", self.receive)
        application.router.add_get("/stats", self.stats)
        return application

    async def receive(self, request: web.Request) -> web.Response:
        """Respond 200 once the event is stored, or if the cloud would not send it."""
        try:
            message = cloudevent.decoded(await request.read())
            data = cloudevent.parsed(message)
        except cloudevent.NotAnEventError as error:
            return web.Response(status=400, text=str(error))
        trigger = request.match_info["trigger"]
        if trigger == MARKER_TRIGGER:
            self._marker = data.value.fields[MARKER_FIELD].integer_value
        elif trigger not in self._triggers:
            return web.Response(status=404, text=f"unknown trigger {trigger}")
        elif cloudevent.changed_something(data):
            self._inbox.add_now(cloudevent.event(trigger, request.headers, message, data))
        return web.Response()

    async def stats(self, _: web.Request) -> web.Response:
        """Respond with the number of events ever received, and the last marker."""
        return web.json_response({"received": self._inbox.counts().received, "marker": self._marker})


@web.middleware
async def _closing(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Close the connection after its response: the emulator waits 1 ms before it reuses one."""
    response = await handler(request)
    response.force_close()
    return response

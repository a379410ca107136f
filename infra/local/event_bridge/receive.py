"""The receiving half: acknowledge an event as soon as it is stored.

The emulator sends one event at a time, waits for the answer, and never sends again what failed; so this half does
nothing that could block or fail. It listens on a socket that the local stack holds open: while it is being
restarted, the next event waits in the socket's backlog.

How soon it answers bounds the rate of all events, and with it how long a change waits behind a bulk load. So its HTTP
is its own (`infra/local/event_bridge/http_protocol.py`): a framework's takes longer than everything else here.

Two kinds of event are lost before: the one in flight when this half is killed, and those of documents whose key holds a
line break or a NUL, which the emulator writes into its headers unescaped.

One trigger is the stack's own. A *marker* is a document written only to see its event: the emulator sends events in
commit order, so when a marker has arrived, the events of all earlier commits are stored.
"""

import asyncio
import json
import re
import signal
import socket
from collections.abc import Collection

from infra.local.event_bridge import cloudevent
from infra.local.event_bridge.http_protocol import HttpProtocol, Request
from infra.local.event_bridge.inbox import Inbox

MARKER_TRIGGER = "signalbox-marker"
MARKER_DOCUMENT = "signalbox-markers/marker"
MARKER_FIELD = "number"
TRIGGER = re.compile(r"/functions/projects/[^/]+/triggers/([^/?]+)")

Answer = tuple[int, bytes]


class Receiver:
    """Receives events of the known triggers from the emulator, or from an embedded store."""

    def __init__(self, inbox: Inbox, triggers: Collection[str]) -> None:
        self._inbox = inbox
        self._triggers = frozenset(triggers)
        self._marker = 0

    async def serve(self, listening: socket.socket) -> None:
        """Serve until SIGTERM or SIGINT. An event whose storing has begun is acknowledged."""
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        server = await loop.create_server(lambda: HttpProtocol(self.answer), sock=listening)
        await stopping.wait()
        server.close()

    def answer(self, request: Request) -> Answer:
        """Return status and body of the answer to a request."""
        if request.method == "GET" and request.path == "/stats":
            return 200, self.stats()
        trigger = TRIGGER.fullmatch(request.path)
        if request.method != "POST" or not trigger:
            return 404, b"POST /functions/projects/PROJECT/triggers/TRIGGER, or GET /stats"
        return self.receive(trigger[1], request)

    def receive(self, trigger: str, request: Request) -> Answer:
        """Return 200 once the event is stored, or if the cloud would not send it."""
        try:
            message = cloudevent.decoded(request.body)
            data = cloudevent.parsed(message)
        except cloudevent.NotAnEventError as error:
            return 400, str(error).encode()
        if trigger == MARKER_TRIGGER:
            self._marker = data.value.fields[MARKER_FIELD].integer_value
        elif trigger not in self._triggers:
            return 404, f"unknown trigger {trigger}".encode()
        elif cloudevent.changed_something(data):
            self._inbox.add_now(cloudevent.event(trigger, request.headers, message, data))
        return 200, b""

    def stats(self) -> bytes:
        """Return the number of events ever received, and the last marker, as JSON."""
        return json.dumps({"received": self._inbox.counts().received, "marker": self._marker}).encode()

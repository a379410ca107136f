"""Terraform's states and locks over HTTP, in memory: a state in a file is written and compared after every resource."""

import http.server
import itertools
import threading
from typing import Self

LOCKED = 423


class StateServer:
    """Serves any number of states, each at its own address, to Terraform's backend `http`."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler({}, {}))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def backend(self) -> str:
        """Return a backend's configuration with a new state."""
        address = f"http://127.0.0.1:{self._server.server_port}/{next(self._numbers)}"
        settings = "".join(f'    {name} = "{address}"\n' for name in ("address", "lock_address", "unlock_address"))
        return f'terraform {{\n  backend "http" {{\n{settings}  }}\n}}\n'


def _handler(states: dict[str, bytes], locks: dict[str, bytes]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(200 if self.path in states else 404, states.get(self.path, b""))

        def do_POST(self) -> None:
            states[self.path.partition("?")[0]] = self._content()
            self._respond(200)

        def do_LOCK(self) -> None:
            mine = self._content()
            held = locks.setdefault(self.path, mine)
            self._respond(200 if held is mine else LOCKED, held)

        def do_UNLOCK(self) -> None:
            self._content()
            locks.pop(self.path, None)
            self._respond(200)

        def _content(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _respond(self, status: int, content: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named as http.server names it
            """Log nothing."""

    return Handler

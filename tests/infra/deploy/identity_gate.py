"""The check of identity tokens that the cloud makes for private functions, here in front of the local stack.

The address for people ends in the environment's prefix, as in the cloud; a path without the prefix is not found.
"""

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator

import httpx

PASSED_ON = ("Content-Type", "If-Match", "Idempotency-Key")


@contextlib.contextmanager
def gate(base_url: Callable[[], str], token: str, prefix: str) -> Iterator[str]:
    """Serve in front of a base URL, read at each call; yield the address. Calls with the token pass."""

    class Gate(http.server.BaseHTTPRequestHandler):
        def handle_call(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization") != f"Bearer {token}":
                self.answer(403, b"Forbidden")
                return
            if not self.path.startswith(f"/{prefix}"):
                self.answer(404, b"Not found")
                return
            address = base_url() + self.path.removeprefix(f"/{prefix}")
            headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
            passed = functions.request(self.command, address, content=content, headers=headers)
            self.answer(passed.status_code, passed.content)

        def answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = handle_call  # noqa: N815  names that http.server requires

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  named as the server names it
            """Log nothing."""

    with httpx.Client(timeout=60) as functions:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gate)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/{prefix}"
        finally:
            server.shutdown()
            server.server_close()

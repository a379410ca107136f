"""What stands before private functions in the cloud, before the local stack: no token, no entry."""

import contextlib
import http.server
import threading
from collections.abc import Iterator

import httpx

PASSED_ON = ("Content-Type", "If-Match", "Idempotency-Key")


@contextlib.contextmanager
def gate(base_url: str, token: str) -> Iterator[str]:
    """Serve in front of a base URL, and give the address: calls with the token pass, others get 403."""

    class Gate(http.server.BaseHTTPRequestHandler):
        def handle_call(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization") != f"Bearer {token}":
                self.answer(403, b"Forbidden")
                return
            headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
            passed = functions.request(self.command, self.path, content=content, headers=headers)
            self.answer(passed.status_code, passed.content)

        def answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = handle_call  # noqa: N815  named as the server asks for them

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  named as the server names it
            """Say nothing."""

    with httpx.Client(base_url=base_url, timeout=60) as functions:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gate)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            server.server_close()

"""The client of local services: a body, or one kind of error for everything else."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from signalbox_tools.http_client import HttpError, send
from signalbox_tools.local.child_processes import free_port


class Echo(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(503 if b"fail" in body else 200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_success_returns_the_body_whatever_proxy_the_environment_names(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    assert send("POST", address, content=b"hello", timeout_seconds=5) == b"hello"


def test_another_status_and_no_response_are_errors(address: str) -> None:
    with pytest.raises(HttpError, match="503 fail"):
        send("POST", address, content=b"fail", timeout_seconds=5)
    with pytest.raises(HttpError, match="POST"):
        send("POST", f"http://127.0.0.1:{free_port()}/", timeout_seconds=5)


def test_a_problem_is_shown_by_its_detail(address: str) -> None:
    with pytest.raises(HttpError, match=r"503 say when$"):
        send("POST", address, content=b'{"title": "fail", "detail": "say when"}', timeout_seconds=5)
    with pytest.raises(HttpError, match=r'503 \["fail"\]$'):
        send("POST", address, content=b'["fail"]', timeout_seconds=5)

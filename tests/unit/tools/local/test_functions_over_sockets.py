"""The local functions server over raw sockets: requests that no client library sends."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from signalbox.adapters.settings import SQLITE
from signalbox_tools.local.services.command_lines import SERVER_OPTIONS

ROOT = Path(__file__).parents[4]
APPLICATION = f"signalbox_tools.local.functions.server:application({str(ROOT / 'infra' / 'catalogue.yaml')!r})"

HEAD = b"PUT /documents/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n"
LENGTH, CHUNKED = b"Content-Length: %d\r\n", b"Transfer-Encoding: chunked\r\n"
BODY = b'{"n": 1}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Start gunicorn with the options of the local stack, on an empty store."""
    listening = socket.create_server(("127.0.0.1", 0))
    command = (sys.executable, "-m", "gunicorn", f"--bind=fd://{listening.fileno()}", *SERVER_OPTIONS, APPLICATION)
    settings = {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'shared'}:{ROOT / 'infra'}",
        "SIGNALBOX_PROJECT": "demo",
        "FIRESTORE_EMULATOR_HOST": SQLITE,
        "SIGNALBOX_STORE_FILE": str(tmp_path_factory.mktemp("store") / "store.sqlite"),
    }
    fds = (listening.fileno(),)
    with subprocess.Popen(command, env=os.environ | settings, pass_fds=fds, stdout=subprocess.DEVNULL) as process:
        yield listening.getsockname()
        process.terminate()
    listening.close()


def exchange(server: tuple[str, int], request: bytes) -> tuple[int, bytes]:
    """Send bytes and no more; return the status and the body of the answer."""
    with socket.create_connection(server, timeout=30) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def get(server: tuple[str, int], address: bytes) -> int:
    return exchange(server, b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % address)[0]


@pytest.mark.parametrize(
    ("framing", "sent"),
    [
        (LENGTH % 100, BODY),
        (LENGTH % 100, b""),
        (CHUNKED, b"8\r\n" + BODY + b"\r\n"),
        (CHUNKED, b"9\r\n" + BODY),
        (CHUNKED, b"8\r\n" + BODY + b"\r\n0\r\n"),
        (CHUNKED, b"8\r\n" + BODY + b"xx0\r\n\r\n"),
        (CHUNKED, b"no\r\n" + BODY + b"\r\n0\r\n\r\n"),
        (CHUNKED, b""),
    ],
    ids=["short", "none", "cut off", "cut in a chunk", "no end", "no terminator", "no size", "no chunk"],
)
def test_a_body_that_is_cut_off_or_malformed_is_400_and_nothing_is_stored(
    server: tuple[str, int], framing: bytes, sent: bytes
) -> None:
    status, body = exchange(server, HEAD % (b"cut", framing) + sent)
    assert (status, json.loads(body)["type"]) == (400, "urn:signalbox:problem:incomplete-body")
    assert get(server, b"/documents/cut") == 404


@pytest.mark.parametrize(
    ("framing", "sent"), [(LENGTH % len(BODY), BODY), (CHUNKED, b"8\r\n" + BODY + b"\r\n0\r\n\r\n")]
)
def test_a_whole_body_is_stored(server: tuple[str, int], framing: bytes, sent: bytes) -> None:
    assert exchange(server, HEAD % (b"whole", framing) + sent)[0] in (200, 201)
    assert get(server, b"/documents/whole") == 200


@pytest.mark.parametrize("size", [1_200_000, 12_000_000])
@pytest.mark.parametrize("connection", [b"close", b"keep-alive"])
def test_a_client_that_sends_too_much_receives_the_refusal(
    server: tuple[str, int], size: int, connection: bytes
) -> None:
    for _ in range(3):
        request = HEAD % (b"large", b"Connection: " + connection + b"\r\n" + LENGTH % size) + b"x" * size
        status, body = exchange(server, request)
        assert (status, json.loads(body)["type"]) == (413, "urn:signalbox:problem:too-large")


def test_an_address_is_as_long_as_in_the_cloud(server: tuple[str, int]) -> None:
    conditions = b"&".join(b"where=n%d==" % n + b"x" * 1_400 for n in range(14))
    assert len(conditions) > 4 * 4_094  # gunicorn's own limit of a request line
    assert get(server, b"/documents?" + conditions) == 200


@pytest.mark.parametrize(
    "headers",
    [
        b"Host: evil.example\r\nContent-Type: application/json\r\n",
        b"Host: localhost\r\nOrigin: https://evil.example\r\nContent-Type: text/plain\r\n",
        b"Host: localhost\r\nSec-Fetch-Site: cross-site\r\nContent-Type: text/plain\r\n",
    ],
    ids=["another name", "another origin", "another site"],
)
def test_what_another_sites_page_sends_is_403_and_nothing_is_stored(server: tuple[str, int], headers: bytes) -> None:
    status, _ = exchange(server, b"PUT /documents/page HTTP/1.1\r\n" + headers + LENGTH % len(BODY) + b"\r\n" + BODY)
    assert status == 403
    assert get(server, b"/documents/page") == 404


def test_a_task_of_a_function_that_the_catalogue_does_not_have_becomes_a_failure(server: tuple[str, int]) -> None:
    body = b'{"operation": "operation-1", "task": "printed", "payload": {}}'
    head = b"POST /pres/tasks/printed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    queue = b"X-CloudTasks-QueueName: tasks\r\nConnection: close\r\n"
    assert exchange(server, head + queue + LENGTH % len(body) + b"\r\n" + body)[0] == 204
    assert get(server, b"/failures/operation-1") == 200

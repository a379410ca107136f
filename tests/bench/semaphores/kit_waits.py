"""The kit's way: a wait over HTTP that names a task, which Cloud Tasks runs under the lease and which signals."""

import itertools
import json
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

from signalbox.catalogue import reading as catalogues
from tests.bench.semaphores.visits import HOLD_SECONDS, Refused, Visit, poll_pause, visit

REPORT_SECONDS_MAX = 30.0
LEASE_SECONDS = 60
REPORT_BYTES_MAX = 1_000
UNAVAILABLE = 503


def catalogue(folder: Path) -> Path:
    """Write a catalogue with all of the kit's functions, where they are, and `turnstile`; return its path."""
    content = yaml.safe_load(catalogues.CATALOGUE.read_text("utf-8"))
    for name, function in catalogues.load().functions.items():
        content["functions"][name]["folder"] = str(function.folder)
    (folder / "turnstile").mkdir(parents=True)
    source = Path(__file__).with_name("turnstile.py")
    (folder / "turnstile" / "main.py").write_bytes(source.read_bytes())
    content["functions"]["turnstile"] = {
        "folder": str(folder / "turnstile"),
        "invoked_by": ["queue"],
        "enqueues": ["admit", "tasks"],
        "tasks": ["begin", "enter"],
    }
    (folder / "infra").mkdir()
    path = folder / "infra" / "catalogue.yaml"
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path


class Reports:
    """Receives the tasks' datagrams. `again` counts the pairs whose task came twice."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.again = 0
        self._came: dict[str, threading.Event] = {}
        self._times: dict[str, tuple[float, float]] = {}
        threading.Thread(target=self._receive, daemon=True).start()

    def expect(self, pair: str) -> None:
        """Remember that this pair will report."""
        self._came[pair] = threading.Event()

    def wait(self, pair: str, seconds_max: float) -> tuple[float, float] | None:
        """Return when the pair's task entered and left, or None if it does not report in time."""
        self._came[pair].wait(seconds_max)
        return self._times.get(pair)

    def close(self) -> None:
        """Receive no more."""
        self._socket.close()

    def _receive(self) -> None:
        while True:
            try:
                pair, _, entered, left = json.loads(self._socket.recv(REPORT_BYTES_MAX))
            except OSError:
                return
            self.again += pair in self._times
            self._times[pair] = (entered, left)
            self._came[pair].set()


class Kit:
    """Clients of a stack's functions over HTTP, at one semaphore."""

    def __init__(self, base_url: str, permits: int, name: str = "turnstile") -> None:
        self.reports = Reports()
        self.calls: Counter[str] = Counter()
        self._name = name
        self._pairs = itertools.count()
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = httpx.Client(base_url=base_url, timeout=60, limits=limits)
        settings = {"permits": permits, "lease_seconds": LEASE_SECONDS}
        self._http.put(f"semaphores/{name}", json=settings).raise_for_status()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()
        self.reports.close()

    def pair(self, _: int, stop_at: float) -> Visit:
        """Wait with a task; return when it ran and signalled. Raises `Refused`."""
        pair = str(next(self._pairs))
        self.reports.expect(pair)
        payload = {"pair": pair, "port": self.reports.port, "hold_seconds": HOLD_SECONDS}
        call = {"function": "turnstile", "task": "enter", "payload": payload}
        asked = time.monotonic()
        response = self._http.post(f"semaphore-wait/{self._name}", json={"id": pair, "continuation": call})
        if response.is_error:
            raise Refused(f"HTTP {response.status_code}")
        times = self.reports.wait(pair, max(stop_at - asked, REPORT_SECONDS_MAX))
        if times is None:
            raise Refused("its task did not run")
        return Visit(asked, *times)

    def acquire(self, _: int, stop_at: float, wait_seconds: int = 0) -> Visit:
        """Poll for a permit, with requests that wait for up to `wait_seconds`; hold it and signal. Raises `Refused`.

        Clients pause at random between two polls. With `wait_seconds`, they also wait for the time in `Retry-After`.
        """
        lease, id_ = "", f"pair {next(self._pairs)}"
        path = f"semaphore-wait/{self._name}?wait_seconds={wait_seconds}"

        def acquired() -> bool:
            nonlocal lease
            response = self._post("acquire", path, {"id": id_})
            answer = response.json()
            lease = answer["lease"]["id"] if answer.get("acquired") else ""
            if wait_seconds and not lease:
                time.sleep(float(response.headers["Retry-After"]))
            return bool(lease)

        def signal() -> None:
            while "released" not in self._post("signal", f"semaphore-signal/{self._name}", {"lease": lease}).json():
                poll_pause()

        return visit(acquired, signal, stop_at)

    def is_free(self) -> bool:
        """Return whether there are no holders and no waiters."""
        shown = self._http.get(f"semaphores/{self._name}").raise_for_status().json()
        return not shown["leases"] and not shown["waiters"]

    def _post(self, what: str, path: str, body: dict[str, Any]) -> httpx.Response:
        """Send a call and count its response. Raises `Refused` if the response is neither a result nor a 503."""
        response = self._http.post(path, json=body)
        self.calls[_outcome(what, response)] += 1
        if response.status_code not in (httpx.codes.OK, UNAVAILABLE):
            raise Refused(f"{what}: HTTP {response.status_code}")
        return response


def _outcome(what: str, response: httpx.Response) -> str:
    if response.is_error:
        return f"{what}: {response.status_code}"
    [(verb, value)] = [(verb, value) for verb, value in response.json().items() if verb in ("acquired", "released")]
    return f"{verb}: {json.dumps(value)}"

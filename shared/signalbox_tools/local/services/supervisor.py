"""Supervise the services of the local stack: start them, wait until they are ready, restart those that die.

One thread does all the work. On Linux a child ends with the thread that started it, so even SIGKILL of this process
ends the services. A service that dies `DEATHS_MAX` times within `DEATHS_SECONDS`, or `FALSE_STARTS_MAX` times without
having been ready in between, ends the whole stack with the end of its log.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from signalbox_tools.local import child_processes
from signalbox_tools.local.services.service_process import Child, Service, StackError

__all__ = ["Service", "StackError", "Supervisor"]

CHECK_SECONDS = 0.03
CHECK_SECONDS_STEADY = 0.2
"""The pause between checks when all services are ready: an idle stack should cost nothing."""


class Supervisor:
    """Runs services until stopped. All methods may be called from any thread."""

    def __init__(self, services: Sequence[Service], folder: Path) -> None:
        self._children = {service.name: Child(service, folder / f"{service.name}.log") for service in services}
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._up, self._stopping, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._requests: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._awaited: set[Future[str]] = set()
        self._error: BaseException | None = None

    def start(self) -> None:
        """Start all services and return when all are ready. Raises `StackError`."""
        self._thread.start()
        self._up.wait()
        self.check()

    def stop(self) -> None:
        """Stop all services and wait for their processes."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._requests.put(lambda: None)
            self._ended.wait()

    def check(self) -> None:
        """Raise the `StackError` that has ended the stack, if one has."""
        if self._error is not None:
            raise StackError(str(self._error), getattr(self._error, "trace", "")) from self._error

    def wait(self) -> None:
        """Wait until a service fails permanently. Raises its `StackError`."""
        self._ended.wait()
        self.check()

    def kill(self, name: str) -> None:
        """SIGKILL a service with all its child processes. It is restarted."""
        self.check()
        if process := self._children[name].process:
            child_processes.kill(process)

    def replace(self, service: Service) -> str:
        """Start a newer version of a service next to the old version, and switch to the newer one once it has loaded.

        Returns an empty text, or the reason why the older version continues to serve.
        """
        return self._request(self._children[service.name].replace, service)

    def restart(self, service: Service) -> None:
        """Stop a service and start it with its present description. Returns when the new process was started."""
        self._request(self._children[service.name].restart, service)

    def halt(self, name: str) -> None:
        """Stop a service permanently. Returns when its process has ended."""
        self._request(self._children[name].halt, self._children[name].service)

    def adopt(self, service: Service) -> None:
        """Replace a service's description for its next start. The running process is unaffected."""
        self._children[service.name].service = service

    def service(self, name: str) -> Service:
        """Return a service as it runs now."""
        return self._children[name].service

    def pid(self, name: str) -> int | None:
        """Return the process id of a service, which leads its process group; or None while it is not running."""
        process = self._children[name].process
        return process.pid if process else None

    def ready(self, name: str) -> bool:
        """Return whether a service was ready when last checked."""
        return self._children[name].prepared

    def _request(self, method: Callable[[Service, "Future[str]"], None], service: Service) -> str:
        result: Future[str] = Future()
        self._awaited.add(result)
        self._requests.put(lambda: _answered(method, service, result))
        if self._ended.is_set():
            result.cancel()
        try:
            return result.result()
        except CancelledError:
            return "the stack has ended"
        finally:
            self._awaited.discard(result)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._handle_requests()
                for child in self._children.values():
                    if child.started or all(self._children[name].prepared for name in child.service.after):
                        child.check()
                if all(child.prepared for child in self._children.values()):
                    self._up.set()
        except BaseException as error:  # noqa: BLE001 (raised to the callers of check and wait)
            self._error = error
        finally:
            self._stop_all()
            self._ended.set()
            self._up.set()

    def _handle_requests(self) -> None:
        """Wait for the next check, or for the next request."""
        steady = all(child.steady for child in self._children.values())
        with suppress(Empty):
            self._requests.get(timeout=CHECK_SECONDS_STEADY if steady else CHECK_SECONDS)()

    def _stop_all(self) -> None:
        running = [process for child in self._children.values() for process in child.running]
        for process in running:
            child_processes.signal_group(process, child_processes.SIGTERM)
        for process in running:
            child_processes.stop(process)
        for result in tuple(self._awaited):
            result.cancel()


def _answered(method: Callable[[Service, "Future[str]"], None], service: Service, result: "Future[str]") -> None:
    """Call a child's method. Its exception goes to the caller that waits for the result, and the services continue."""
    try:
        method(service, result)
    except Exception as error:  # noqa: BLE001 (raised in the caller's thread)
        if not result.done():
            result.set_exception(error)

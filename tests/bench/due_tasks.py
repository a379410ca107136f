"""A queue in the bench's own process: it runs tasks when they are due, each name once, again if they were refused."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from heapq import heappop, heappush
from itertools import count

from signalbox.core.effects import Effect
from signalbox.core.ports import Ports
from signalbox.core.problems import Unavailable

LOOK_SECONDS = 0.01
BACKOFF_SECONDS = 0.1
DOUBLINGS_MAX = 4

Run = Callable[[Ports, Effect, int], None]
"""Run a task that was delivered so many times before. Raises `Unavailable` if it is to be delivered again."""


class DueTasks:
    """Tasks that wait; `workers` threads run those that are due."""

    def __init__(self, run: Run, workers: int = 1) -> None:
        self._run = run
        self._workers = workers
        self._waiting: list[tuple[float, int, int, Effect]] = []
        self._names: set[str] = set()
        self._numbers = count()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        for each in effects:
            with self._lock:
                known = each.name in self._names
                self._names.add(each.name)
            if not known:
                self._push(each.not_before.timestamp() if each.not_before else 0, 0, each)
        return ()

    def start(self, ports: Ports) -> None:
        self._threads = [threading.Thread(target=self._work, args=(ports,), daemon=True) for _ in range(self._workers)]
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        self._over.set()
        for each in self._threads:
            each.join()

    def _push(self, due_at: float, deliveries: int, task: Effect) -> None:
        with self._lock:
            heappush(self._waiting, (due_at, next(self._numbers), deliveries, task))

    def _pop(self) -> tuple[int, Effect] | None:
        with self._lock:
            if not self._waiting or self._waiting[0][0] > time.time():
                return None
            return heappop(self._waiting)[2:]

    def _work(self, ports: Ports) -> None:
        while not self._over.is_set():
            if (popped := self._pop()) is None:
                self._over.wait(LOOK_SECONDS)
                continue
            deliveries, task = popped
            try:
                self._run(ports, task, deliveries)
            except Unavailable:
                pause = BACKOFF_SECONDS * 2 ** min(deliveries, DOUBLINGS_MAX)
                self._push(time.time() + pause, deliveries + 1, task)

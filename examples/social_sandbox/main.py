"""Run code of strangers, with its tests, in a sandbox: the function of Social Code that does nothing else.

    POST {base}social-sandbox/runs {"runs": [{"sources": [{"name": "Add", "code": "…"}], "tests": "…"}]}

The interpreter is `pydantic-monty`, a subset of Python written in Rust without access to its host. Code gets `log` and
`check`. Clock, entropy and sleep are constants, so that a run's result depends on its code alone. Each run has its own
process, with limits of the operating system. If the interpreter has a hole, this process can open no file and no
connection, cannot write to the log, and is killed at its deadline. On Linux it cannot read or write the memory of the
server, unless it runs as root. The function's account has no rights. The README lists what is left.
"""

import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypedDict

from pydantic_monty import (
    Monty,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySession,
    MontySyntaxError,
    OSPolicy,
    ResourceLimits,
)

from signalbox import Function, Problem, Request, Unavailable, parse

SECONDS_MAX = 1.0
"""Execution time of each source of a run."""

DEADLINE_SECONDS = 5.0
"""The wall time of a whole run. Then its process is killed."""

CPU_SECONDS_MAX = 4
"""The processor time of a whole run. Then the kernel kills its process."""

MEMORY_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of the interpreter's heap."""

ADDRESS_SPACE_BYTES_MAX = 512 * 1024 * 1024
"""Bytes of its process: far above the heap, for the interpreter itself and for memory that it allocates before it
counts.
"""

RECURSION_MAX = 200
CHECKS_MAX = 1_000
LOG_LENGTH_MAX = 10_000
MESSAGE_LENGTH_MAX = 500
SOURCE_LENGTH_MAX = 10_000
"""Characters of each source."""

SOURCES_MAX = 100
RUNS_MAX = 20
"""Runs in one request. If each ends at its deadline, the request takes half a minute."""

RUNS_AT_ONCE_MAX = 4
"""Runs at once in one instance; others wait."""

STANDARD_ERROR = 2
PR_SET_DUMPABLE = 4
"""Linux's number of the setting, from `linux/prctl.h`."""

NOON = datetime(2000, 1, 1, 12, tzinfo=UTC)
FULL = f"more than {LOG_LENGTH_MAX:,} characters were logged"
PRELUDE = "def log(*values):\n    print(*values)\n"


app = Function("social_sandbox")


class BadRun(Problem):
    title = "A request has at most 20 runs, each with at most 100 sources of at most 10,000 characters"


class Source(TypedDict):
    """The code of a function."""

    name: str
    code: str


class Run(TypedDict):
    """Sources in their order, and the tests that run after them."""

    sources: list[Source]
    tests: str


@dataclass(slots=True)
class Output:
    """The log of a run. A run that logs more fails, and the rest is dropped."""

    text: str = ""
    is_full: bool = False

    def write(self, _: str, text: str) -> None:
        self.text, self.is_full = (self.text + text)[:LOG_LENGTH_MAX], len(self.text + text) > LOG_LENGTH_MAX
        if self.is_full:
            raise ValueError("the log is full")


@dataclass(slots=True)
class Checks:
    """The checks of a run. They are counted in this process, so code that catches every exception still fails."""

    count: int = 0
    failures: list[str] = field(default_factory=list)

    def check(self, condition: object, message: object = "") -> bool:
        """Record a check. Only True passes: an object of the sandbox has no truth value here."""
        self.count += 1
        if condition is not True:
            kind = "" if condition is False else f" (check takes True or False, not {type(condition).__name__})"
            reason = message if isinstance(message, str) and message else f"check {self.count} failed"
            self.failures.append(f"{reason[:MESSAGE_LENGTH_MAX]}{kind}")
        return condition is True


@app.http("POST", "/runs")
def run(request: Request) -> dict[str, Any]:
    """Run each of `runs`; return the `results` of `run_tests` in their order."""
    runs = parse(request.json_object().get("runs"), list[Run])
    if len(runs) > RUNS_MAX:
        raise BadRun("Send the runs in several requests.", field="runs")
    with ThreadPoolExecutor(RUNS_AT_ONCE_MAX) as pool:
        return {"results": list(pool.map(lambda each: run_tests(each["sources"], each["tests"]), runs))}


def run_tests(sources: Sequence[Source], tests: str) -> dict[str, Any]:
    """Run sources (`name`, `code`) in their order, then the tests; return `success`, `message`, `logs` and `checks`.

    Whatever the code does, this does not raise: the result describes its end. Raises `BadRun` if there is too much of
    it, and `Unavailable` if no process could be started.
    """
    if len(sources) > SOURCES_MAX or max([len(tests), *(len(each["code"]) for each in sources)]) > SOURCE_LENGTH_MAX:
        raise BadRun("Split the function, or shorten it.")
    checks, output = Checks(), Output()
    parts = [(f"the code of {each['name']}", each["code"]) for each in sources] + [("the tests", tests)]
    try:
        with _process() as session:
            message = _feed(session, parts, checks, output)
    except MontyError as error:
        raise Unavailable("the sandbox's process could not start", retry_after_seconds=5) from error
    if not message and checks.failures:
        message = checks.failures[0]
    elif not message and not checks.count:
        message = "the tests check nothing"
    shown = message[:MESSAGE_LENGTH_MAX]
    return {"success": not message, "message": shown, "logs": output.text, "checks": checks.count}


def _feed(session: MontySession, parts: Sequence[tuple[str, str]], checks: Checks, output: Output) -> str:
    """Run the parts in a session. Return the reason if they end early, or an empty text."""
    session.feed_run(PRELUDE, print_callback=output.write)
    if session.worker_pid is not None:
        lock(session.worker_pid)
    for where, code in parts:
        names = {"check": checks.check}
        try:
            # Bound before each source: one that assigns `check` does not replace it for the next.
            session.feed_run(code, inputs=names, external_lookup=names, print_callback=output.write)
        except MontyCrashedError:
            return f"in {where}: the process was killed, at its deadline or by a limit of the operating system"
        except MontyError as error:
            return f"in {where}: {FULL if output.is_full else _reason(error)}"
        if output.is_full:
            return f"in {where}: {FULL}"
    return ""


def _reason(error: MontyError) -> str:
    if isinstance(error, MontyRuntimeError | MontySyntaxError):
        return error.display(format="type-msg")
    return str(error)


@contextmanager
def _process() -> Iterator[MontySession]:
    """Yield a session in a new process, which is killed at the deadline."""
    policy: OSPolicy = {"datetime": NOON, "sleep": "zero", "random_start": {"seed": 1}}
    limits = ResourceLimits(
        max_feed_duration_secs=SECONDS_MAX,
        max_memory=MEMORY_BYTES_MAX,
        max_recursion_depth=RECURSION_MAX,
        max_suspensions=CHECKS_MAX,
    )
    try:
        session = _pool().checkout(limits=limits, os_policy=policy)
        with session:
            watchdog = threading.Timer(DEADLINE_SECONDS, _kill, (session.worker_pid,))
            watchdog.start()
            try:
                yield session
            finally:
                watchdog.cancel()
    except TimeoutError as error:
        raise Unavailable("all processes of the sandbox are busy", retry_after_seconds=5) from error


def _kill(process: int | None) -> None:
    if process is not None:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def lock(process: int) -> None:
    """Set the limits of a started process: no number is free for a further file or connection."""
    for limit, most in (
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, CPU_SECONDS_MAX),
        (resource.RLIMIT_AS, ADDRESS_SPACE_BYTES_MAX),
    ):
        resource.prlimit(process, limit, (most, most))


def hide_server() -> None:
    """Separate the server from the processes that it starts from now on.

    They get no standard error, to which they could write lines of the log. On Linux, the kernel refuses a process of
    the same user that reads or writes the server's memory.
    """
    os.set_inheritable(STANDARD_ERROR, False)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


@lru_cache(maxsize=1)
def _pool() -> Monty:
    """Return the pool, which starts a process for each run: none serves two."""
    hide_server()
    pool = Monty(
        min_processes=0,
        max_processes=RUNS_AT_ONCE_MAX,
        checkout_timeout=60,
        request_timeout=DEADLINE_SECONDS,
        max_checkouts_per_worker=1,
        feed_duration_limit_grace=0.5,
    )
    return pool.__enter__()


social_sandbox = app.entry_point()

"""Serve all functions on this machine until Ctrl-C: ``python -m signalbox_infra.local``, or ``make dev``.

Code and catalogue are reloaded when they change. ``PORT`` is the port for people (8080). ``DATA=folder`` keeps
documents, queues and events for the next start. ``LOG=json`` writes the log as JSON lines, ``LOG=full`` whole
tracebacks. ``CHAOS=twice=0.1,late=0.1``
injects faults into queues and events. ``SIGNALBOX_STORE=embedded`` runs without Google's Firestore emulator.
"""

import contextlib
import os
import sys
from pathlib import Path

from rich.console import Console

from signalbox.adapters.settings import EMBEDDED
from signalbox.catalogue.project import Project
from signalbox.catalogue.reading import CatalogueError
from signalbox_infra.local import chaos
from signalbox_infra.local.folder.running_stack import NoStack, RunningStack
from signalbox_infra.local.logs.follower import LogFollower
from signalbox_infra.local.logs.terminal import Terminal
from signalbox_infra.local.logs.tracebacks import cut
from signalbox_infra.local.reloading.dev_loop import DevLoop
from signalbox_infra.local.stack import Stack, StackError

PORT_MAX = 65_535
STORES = ("", EMBEDDED)


def main() -> int:
    port = os.environ.get("PORT", "8080")
    if refused := _refused(port):
        sys.stderr.write(f"{refused}\n")
        return 2
    try:
        with contextlib.suppress(KeyboardInterrupt):
            _run(int(port))
    except OSError as error:
        sys.stderr.write(f"{_running() or error.strerror or error}\n")
        return 1
    except StackError as error:
        trace = error.trace if os.environ.get("LOG") == "full" else cut(error.trace)
        sys.stderr.write(f"{error}\n{trace}".rstrip() + "\n")
        return 1
    except CatalogueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _refused(port: str) -> str:
    """Return what is wrong with the variables of the command line, or an empty text."""
    if not port.isdecimal() or not 1 <= int(port) <= PORT_MAX:
        return f"PORT must be a number from 1 to {PORT_MAX}, not {port!r}"
    if (store := os.environ.get("SIGNALBOX_STORE", "")) not in STORES:
        return f"SIGNALBOX_STORE is {store!r}: set it to {EMBEDDED}, or unset it to use the Firestore emulator"
    try:
        chaos.parse(os.environ.get("CHAOS", ""))
    except ValueError as error:
        return f"CHAOS is {os.environ['CHAOS']!r}: {error}. Write CHAOS=twice=0.1,late=0.1"
    return ""


def _running() -> str:
    """Return where the stack of this project runs already, or an empty text."""
    with contextlib.suppress(NoStack, OSError):
        running = RunningStack.of(Project.find().state)
        return f"The local stack of this project runs already: {running.base_url} (process {running.pid})"
    return ""


def _run(port: int) -> None:
    data, log = os.environ.get("DATA"), os.environ.get("LOG", "")
    terminal = Terminal(Console(highlight=False, markup=False, emoji=False), log == "json", log == "full")
    stack = Stack(port, Project.find().state, data=Path(data) if data else None)
    loop = DevLoop(stack, terminal.announce)
    loop.watch()  # before the stack starts, which takes seconds: a file may be saved meanwhile
    sys.stdout.write("Starting: the store, the queues and all functions take some seconds.\n")
    sys.stdout.flush()
    with stack:
        _serve(stack, terminal, loop)


def _serve(stack: Stack, terminal: Terminal, loop: DevLoop) -> None:
    follower = LogFollower([stack.folder / f"{name}.log" for name in stack.service_names], terminal.show)
    _print_urls(stack)
    follower.start()
    loop.start()
    try:
        stack.wait()
    finally:
        loop.stop()
        follower.stop()
        if kept := os.environ.get("DATA"):
            sys.stdout.write(f"\nStopping: the data is saved in {kept} when this command ends, in some seconds.\n")
            sys.stdout.flush()


def _print_urls(stack: Stack) -> None:
    width = max(map(len, stack.urls), default=0)
    urls = "".join(f"  {name:{width}}  {url}\n" for name, url in stack.urls.items())
    sys.stdout.write(f"Serving {stack.base_url} (store: {stack.store})\n{urls}")
    sys.stdout.write(f"  {'docs':{width}}  {stack.base_url}docs (every call, with a form to try it)\n")
    sys.stdout.write(f"  {'console':{width}}  {stack.base_url}console (pages that show what happens)\n")
    kept = os.environ.get("DATA")
    documents = f"{kept} keeps the data" if kept else "Documents are in memory; DATA=folder keeps them"
    sys.stdout.write(f"Logs: {stack.folder}. {documents}. Changed files are reloaded. Stop with Ctrl-C.\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""Replay the logs of runs with the project's code, in this process, where a debugger can stop it.

A deployment and `signalbox dev` run the command in a separate process for each function, since functions may have
modules of the same names.
"""

import importlib.util
import pdb
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signalbox.catalogue import reading

if TYPE_CHECKING:
    from signalbox.client import Client
    from signalbox.flows.api.runs import Flow

CONTINUING = ("running", "suspended")
"""The states of runs that would be stuck with code that does not fit."""

READS_AT_ONCE = 8
"""The number of logs that are read at once."""


def flow_of(function: str, name: str, environment: str = "") -> "Flow[Any, Any]":
    """Load a function of the catalogue and return its flow. Raises `CatalogueError` and `LookupError`."""
    flows = flows_of(function, environment)
    if name not in flows:
        raise LookupError(f"{function} has no flow {name!r}. It has: {', '.join(sorted(flows)) or 'none'}.")
    return flows[name]


def flows_of(function: str, environment: str = "") -> "Mapping[str, Flow[Any, Any]]":
    """Load a function of the catalogue and return its flows by name.

    The environment names the database of its runs. Raises `CatalogueError` and `LookupError`.
    """
    from signalbox.flows.api.runs import Flow

    catalogue = reading.load(database=reading.database_in(environment))
    if (database := catalogue.elsewhere.get(function)) is not None:
        where = ".".join(filter(None, (environment.partition(".")[0] or "dev", database)))
        raise LookupError(f"{function} has another database, and so its runs: add -e {where}.")
    functions = catalogue.functions
    if function not in functions:
        raise LookupError(f"No function {function!r} is in the catalogue. It has: {', '.join(sorted(functions))}.")
    before = set(sys.modules)
    main = _loaded(functions[function].folder)
    modules = [main, *(module for key, module in sys.modules.items() if key not in before)]
    return {value.name: value for module in modules for value in vars(module).values() if isinstance(value, Flow)}


@contextmanager
def knowing_the_catalogue(environment: str = "") -> Iterator[None]:
    """Let the code find the flows and the classes of all functions of a database, as it does in a deployment."""
    from signalbox.adapters import settings

    known, own = reading.load(database=reading.database_in(environment)), settings.settings()
    flows = {**known.flow_functions, **own.flow_functions}
    classes = {**known.object_classes, **own.object_classes}
    before = settings.bind(replace(own, flow_functions=flows, object_classes=classes))
    try:
        yield
    finally:
        settings.bind(before)


def _loaded(folder: Path) -> Any:
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("main", folder / "main.py")
    if spec is None or spec.loader is None:
        raise LookupError(f"{folder} has no main.py.")
    module = sys.modules["main"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def replay(flow: "Flow[Any, Any]", log: Mapping[str, Any], *, stop: bool) -> str:
    """Replay a log; return what the run waits for. With `stop`, pdb stops at the first line of the flow's code.

    Raises `DoesNotFit` if the code diverges from the log.
    """
    from signalbox.testing import replay as replayed

    if stop:
        code = flow.definition.code.__code__
        lines = [line for _, _, line in code.co_lines() if line and line > code.co_firstlineno]
        debugger = pdb.Pdb()
        first = min(lines, default=code.co_firstlineno)
        debugger.rcLines[:] = [f"tbreak {code.co_filename}:{first}", "continue"]
        debugger.runcall(replayed, flow, log)
    else:
        replayed(flow, log)
    waits = ", ".join(f"{command} at {path}" for path, command in log["waiting_for"].items())
    return f"The code fits the log ({log['log_length']} entries). The run waits for: {waits or 'nothing'}."


# --- all runs ---


def replay_all(client: "Client", function: str, flows: "Mapping[str, Flow[Any, Any]]") -> Iterator[str]:
    """Replay the logs of all runs that continue; yield for each an empty text, or why the run would be stuck.

    The logs are read in parallel. A flow that is not deployed yet has no runs, and a run that is removed meanwhile is
    left out.
    """
    from signalbox.testing import replay as replayed

    runs = ((name, id_) for name in sorted(flows) for id_ in _continuing(client, function, name))
    with ThreadPoolExecutor(READS_AT_ONCE) as pool:
        logs = pool.map(lambda run: (run[0], _log(client, function, *run)), runs)
        for name, log in logs:
            if log is None:
                continue
            try:
                replayed(flows[name], log)
            except AssertionError as error:
                yield str(error)
            else:
                yield ""


def _continuing(client: "Client", function: str, name: str) -> Iterator[str]:
    from signalbox.client import NotFound

    for state in CONTINUING:
        try:
            for run in client.flow(function, name).runs(state):
                yield str(run["id"])
        except NotFound:
            return


def _log(client: "Client", function: str, name: str, id_: str) -> Mapping[str, Any] | None:
    from signalbox.client import NotFound

    try:
        return client.flow(function, name).run(id_).whole_log()
    except NotFound:
        return None


def command_for(function: str, *place: str) -> list[str]:
    """Return the command that replays all runs of a function that continue, at a place."""
    return [sys.executable, "-m", "signalbox_tools", "flows", "replay", function, "--all-running", *place]


def misfits_of(function: str, root: Path, database: str = "") -> str:
    """Replay all runs of a function on the local stack; return what would be stuck, or an empty text."""
    place = ("-e", f"dev.{database}") if database else ()
    done = subprocess.run(command_for(function, *place), cwd=root, capture_output=True, text=True, check=False)  # noqa: S603  (no shell)
    return done.stdout.strip() if done.returncode == MISFITS_STATUS else ""


MISFITS_STATUS = 3
"""The exit status of the command if runs would be stuck. Any other failure has the status 1."""

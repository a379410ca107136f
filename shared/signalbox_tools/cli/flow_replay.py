"""Replay the log of a run with the project's code, in this process, where a debugger can stop it."""

import importlib.util
import pdb
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signalbox.catalogue import reading

if TYPE_CHECKING:
    from signalbox.flows.api.runs import Flow


def flow_of(function: str, name: str) -> "Flow[Any, Any]":
    """Load a function of the catalogue and return its flow. Raises `CatalogueError` and `LookupError`."""
    from signalbox.flows.api.runs import Flow

    functions = reading.load().functions
    if function not in functions:
        raise LookupError(f"No function {function!r} is in the catalogue. It has: {', '.join(sorted(functions))}.")
    before = set(sys.modules)
    main = _loaded(functions[function].folder)
    modules = [main, *(module for key, module in sys.modules.items() if key not in before)]
    flows = {value.name: value for module in modules for value in vars(module).values() if isinstance(value, Flow)}
    if name not in flows:
        raise LookupError(f"{function} has no flow {name!r}. It has: {', '.join(sorted(flows)) or 'none'}.")
    return flows[name]


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

"""Compare the arguments that schedules pass with the parameters of a function's tasks, by reading the code.

The code is read, not run: names of arguments are compared, not their types. A parameter whose annotation reading cannot
follow may be one that the kit fills, so it is neither required nor refused.
"""

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from signalbox.catalogue.code import tasks_of
from signalbox.catalogue.entries import Function, Schedule
from signalbox.catalogue.folders import python_files
from signalbox_infra.packaging.imports import PackagingError

FILLED = frozenset({"Completion", "Lease", "TaskContext", "Unit"})
PLAIN = frozenset(dir(builtins)) | {"Any", "Literal", "None", "Optional", "Union"}


@dataclass(frozen=True, slots=True)
class Taken:
    """The arguments of a task: all that it accepts, and those that it requires."""

    known: frozenset[str]
    required: frozenset[str]


def check_schedules(function: Function, schedules: Sequence[Schedule]) -> None:
    """Raise `PackagingError` for a schedule whose arguments do not fit the function's task."""
    own = [schedule for schedule in schedules if schedule.task and schedule.function == function.name]
    tasks = {task.name: _taken(task) for task in tasks_of(python_files(function.folder))} if own else {}
    if complaints := [
        error for schedule in own if schedule.task in tasks for error in _errors(schedule, tasks[schedule.task])
    ]:
        raise PackagingError(f"{function.name}: {'; '.join(complaints)}")


def _errors(schedule: Schedule, taken: Taken) -> Iterator[str]:
    entry = f"in the catalogue, schedules.{schedule.name}.arguments:"
    for name in sorted(schedule.arguments.keys() - taken.known):
        yield f"{entry} {schedule.task} takes no argument {name!r}"
    for name in sorted(taken.required - schedule.arguments.keys()):
        yield f"{entry} {schedule.task} needs the argument {name!r}"


def _taken(task: ast.FunctionDef) -> Taken:
    parameters = dict(_parameters(task))
    filled = {
        parameter.arg for parameter in parameters if parameter.annotation and _names(parameter.annotation) & FILLED
    }
    doubtful = {
        parameter.arg for parameter in parameters if parameter.annotation and not _names(parameter.annotation) <= PLAIN
    }
    required = {parameter.arg for parameter, has_default in parameters.items() if not has_default}
    return Taken(frozenset(parameter.arg for parameter in parameters) - filled, frozenset(required - doubtful))


def _parameters(task: ast.FunctionDef) -> Iterator[tuple[ast.arg, bool]]:
    """Iterate over the parameters, each with whether it has a default."""
    positional = task.args.args
    without = len(positional) - len(task.args.defaults)
    yield from ((parameter, index >= without) for index, parameter in enumerate(positional))
    keywords = zip(task.args.kwonlyargs, task.args.kw_defaults, strict=True)
    yield from ((parameter, default is not None) for parameter, default in keywords)


def _names(annotation: ast.expr) -> set[str]:
    """Return the names in an annotation; a quoted one has the names in the quotes."""
    read: ast.AST = annotation
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            read = ast.parse(annotation.value, mode="eval")
        except SyntaxError:
            return {annotation.value}
    attributes = {node.attr for node in ast.walk(read) if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in ast.walk(read) if isinstance(node, ast.Name)}

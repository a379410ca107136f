"""Run a cloudbuild.yaml on this machine, step by step, as Cloud Build does: without its images, and one step at a time.

A step's program is found in the PATH of the step, then in this machine's; ``/workspace`` is a folder on this machine.
Among the steps that may start, the last one listed is started, so a step that needs another one without naming it
fails. Anything that this module does not know is refused.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

Runner = Callable[[list[str], str, dict[str, str]], int]
"""Runs a command in a folder below the workspace, with these variables, and returns the status."""

STEP_KEYS = {"id", "name", "entrypoint", "args", "env", "dir", "waitFor"}
BUILD_KEYS = {"steps", "substitutions", "options", "serviceAccount", "timeout", "artifacts"}
REFERENCE = re.compile(r"\$(?:(\$)|\{(\w+)\}|([A-Z_][A-Z0-9_]*))")
AT_ONCE = ["-"]


class Refused(Exception):
    """Cloud Build would not take this file, or this executor does not know what it would do with it."""


def build(content: Mapping[str, Any], workspace: str, run: Runner, **substitutions: str) -> dict[str, int]:
    """Run the steps until one fails; return the status of those that ran, in the order in which they ran."""
    _known(content, BUILD_KEYS)
    values = {**content.get("substitutions", {}), **substitutions}
    _used(content, values)
    steps = {step["id"]: step for step in content["steps"]}
    waits = _waits(list(steps.values()))
    done: dict[str, int] = {}
    while ready := [name for name in steps if name not in done and waits[name] <= done.keys()]:
        done[ready[-1]] = _take(steps[ready[-1]], workspace, values, run)
        if done[ready[-1]]:
            break
    return done


def substituted(text: str, values: Mapping[str, str]) -> str:
    """Put values in place of $NAME and ${NAME}; $$ is a dollar sign."""

    def value(found: re.Match[str]) -> str:
        name = found[2] or found[3]
        if found[1]:
            return "$"
        if name not in values:
            raise Refused(f"no substitution is called {name}")
        return values[name]

    return REFERENCE.sub(value, text)


def _take(step: dict[str, Any], workspace: str, values: Mapping[str, str], run: Runner) -> int:
    _known(step, STEP_KEYS)
    if "entrypoint" not in step:
        raise Refused(f"{step['id']}: the image's default command is unknown here")

    def local(text: str) -> str:
        return substituted(text, values).replace("/workspace", workspace)

    environment = dict(local(each).split("=", 1) for each in step.get("env", []))
    if "PATH" in environment:
        environment["PATH"] = os.pathsep.join((environment["PATH"], os.environ["PATH"]))
    command = [local(step["entrypoint"]), *map(local, step.get("args", []))]
    return run(command, local(step.get("dir", "")), environment)


def _waits(steps: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Return for each step what must be done before: what it names, or everything above it."""
    waits: dict[str, set[str]] = {}
    for step in steps:
        named = step.get("waitFor", list(waits))
        waits[step["id"]] = set() if named == AT_ONCE else set(named)
        if waits[step["id"]] - waits.keys() or step["id"] in waits[step["id"]]:
            raise Refused(f"{step['id']} waits for what is not above it: {named}")
    return waits


def _used(content: Mapping[str, Any], values: Mapping[str, str]) -> None:
    """Refuse a substitution of the user's that nothing refers to, as Cloud Build does."""
    referred = {found[2] or found[3] for found in REFERENCE.finditer(str({**content, "substitutions": None}))}
    if unused := {name for name in values if name.startswith("_")} - referred:
        raise Refused(f"nothing refers to {sorted(unused)}")


def _known(given: Mapping[str, Any], keys: set[str]) -> None:
    if unknown := given.keys() - keys:
        raise Refused(f"not known here: {sorted(unknown)}")

"""A deployment that several tests look at is applied once in a run, also where the run has several workers.

The first one that wants it applies it, and keeps Terraform's state and the cloud's content in the run's own folder; the
others, which wait for it, begin with these, in a cloud and with a state of their own.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.infra.google_provider.servicer import Cloud, Operation
from tests.infra.workspace import Workspace


def folder_of_the_run(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of a run have in common."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold a lock next to a path: the second process finds the result of the first."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def applied(workspace: Workspace, kept: Path) -> Workspace:
    """Initialise and apply a workspace, or begin with what was kept of one with the same files and variables."""
    workspace.initialise()
    with one_at_a_time(kept):
        if not kept.exists():
            workspace.apply()
            kept.write_text(json.dumps(_content(workspace)), "utf-8")
            return workspace
    _begin_with(workspace, json.loads(kept.read_text("utf-8")))
    return workspace


def _content(workspace: Workspace) -> dict[str, Any]:
    cloud = workspace.google.cloud
    return {
        "state": workspace.run("state", "pull").stdout,
        "existing": [[*key, value] for key, value in cloud.existing.items()],
        "operations": [[each.verb, each.kind, each.value] for each in cloud.operations],
    }


def _begin_with(workspace: Workspace, content: dict[str, Any]) -> None:
    file = workspace.infra / "kept.tfstate"
    file.write_text(content["state"], "utf-8")
    workspace.run("state", "push", str(file))
    cloud: Cloud = workspace.google.cloud
    cloud.existing.update({(kind, name): value for kind, name, value in content["existing"]})
    cloud.operations.extend(Operation(*each) for each in content["operations"])

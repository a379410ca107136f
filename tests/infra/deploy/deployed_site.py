"""A clone that deploys next to what exists, and the local stack started from what it has applied."""

import contextlib
import json
import threading
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from signalbox.catalogue.reading import load
from signalbox_tools.deploy import deployment_target
from signalbox_tools.local.stack import Stack
from tests.infra import applied_state
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.user_clone import Clone
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.stack_from_state import stack_of

ENVIRONMENT = "dev"
PREFIX = deployment_target.read(PROJECT, ENVIRONMENT).name_prefix


class Site:
    """Starts a clone's stack when it is wanted; `closing` ends it."""

    def __init__(self, kit: Clone, google: GoogleProvider, folder: Path, closing: contextlib.ExitStack) -> None:
        self.kit = kit
        self.google = google
        self.before = frozenset(google.cloud.existing)
        self._folder = folder
        self._closing = closing
        self._starting = threading.Lock()
        self._stack: Stack | None = None

    @property
    def stack(self) -> Stack:
        """The running stack. Raises `CatalogueError` when what was applied cannot work."""
        with self._starting:
            if self._stack is None:
                self._stack = self._closing.enter_context(stack_of(self.applied, self._folder))
            return self._stack

    @property
    def made(self) -> frozenset[tuple[str, str]]:
        """What exists in the cloud and did not before: kinds and names."""
        return frozenset(self.google.cloud.existing) - self.before

    @cached_property
    def shown(self) -> Mapping[str, Any]:
        """What the clone has applied, out of its state in the bucket."""
        data = deployment_target.read(PROJECT, ENVIRONMENT, root=self.kit.folder).work
        shown = self.kit.run("terraform", "show", "-json", "-no-color", folder="infra", TF_DATA_DIR=str(data))
        said: Mapping[str, Any] = json.loads(shown.stdout)
        return said

    @cached_property
    def applied(self) -> applied_state.AppliedState:
        """What the clone has applied as a catalogue and its functions' environments."""
        catalogue = load(self.kit.folder / "infra" / "catalogue.yaml")
        folders = {name: function.folder for name, function in catalogue.functions.items()}
        return applied_state.read(self.shown, folders, catalogue.root)

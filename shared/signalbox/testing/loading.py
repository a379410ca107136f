"""Functions as functions-framework serves them, in this process: those of the catalogue, of a folder, or of a test."""

import json
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import flask
import functions_framework
from functions_framework import _function_registry

from signalbox import Function
from signalbox.adapters.settings import Settings, settings
from signalbox.core.ports import DocumentEvent
from signalbox.testing.document_events import kind_of
from signalbox_infra import catalogue as catalogues
from signalbox_infra.catalogue import CATALOGUE, Catalogue, Schedule

FRAMEWORK_VARIABLES = ("FUNCTION_TARGET", "FUNCTION_SIGNATURE_TYPE", "FUNCTION_SOURCE")
"""Variables that the framework leaves in the environment."""


class UnknownFunction(LookupError):
    """No function of this name is in the catalogue or was added to the harness."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Events of the type that ends in `kind`, of records under the pattern `document`, invoke `function`."""

    function: str
    document: str
    kind: str = "written"

    def fits(self, event: DocumentEvent) -> bool:
        """Return whether the event invokes the function."""
        pattern, path = self.document.split("/"), event.path.split("/")
        same_length = len(pattern) == len(path)
        fitting = all(part == segment or part.startswith("{") for part, segment in zip(pattern, path, strict=False))
        return same_length and fitting and self.kind in ("written", kind_of(event))


class FunctionTable:
    """Functions by name. One of the catalogue is loaded when it is first called, once a process."""

    def __init__(self, catalogue: Path = CATALOGUE) -> None:
        self._catalogue = _catalogue(catalogue)
        self._apps: dict[str, flask.Flask] = {}
        self._auth: dict[str, str] = {}
        self._open: dict[str, frozenset[str]] = {}
        self.triggers = [
            Trigger(trigger.function, trigger.document, trigger.event.rpartition(".")[2])
            for trigger in self._catalogue.triggers.values()
        ]

    def app(self, name: str) -> flask.Flask:
        """Return a function's application. Raises `UnknownFunction`."""
        if name not in self._apps:
            self._apps[name] = self._load(name)
        return self._apps[name]

    def settings(self) -> Settings:
        """Return the settings of these functions: the environment's, with the origins and users of the catalogue."""
        auth = {**self._catalogue.auth, **self._auth}
        origins, opened = self._catalogue.origins, {**self._catalogue.open_functions, **self._open}
        history = json.dumps([rule.to_json() for rule in self._catalogue.history_rules])
        chosen = replace(settings(), origins=origins, history=history, tokens_unsigned=True)
        return replace(chosen, auth=auth, open_functions=opened)

    def add(self, function: Function, auth: str = "", exposes: Collection[str] | None = None) -> None:
        """Add a function made in a test; it replaces one of the same name.

        `auth` is as in the catalogue; so is `exposes`, and None: the function is private.
        """
        self._apps[function.name] = application(function)
        self._auth[function.name] = auth
        self._open.pop(function.name, None)
        if exposes is not None:
            self._open[function.name] = frozenset(exposes)
        if function.document_pattern is not None:
            self.triggers.append(Trigger(function.name, function.document_pattern))

    def load(self, folder: Path, name: str, signature_type: str) -> None:
        """Add the function of ``main.py`` in `folder`."""
        self._apps[name] = load(name, folder.resolve(), signature_type)

    def scheduled(self, schedule: str) -> Schedule:
        """Return a schedule of the catalogue. Raises `KeyError`."""
        return self._catalogue.schedules[schedule]

    def _load(self, name: str) -> flask.Flask:
        entries = self._catalogue.functions
        if name not in entries:
            raise UnknownFunction(f"no function {name!r}; there are: {', '.join(sorted({*entries, *self._apps}))}")
        return load(name, entries[name].folder, entries[name].signature_type)


@cache
def _catalogue(path: Path) -> Catalogue:
    return catalogues.load(path)


def application(function: Function) -> flask.Flask:
    """Serve a function that was made in this process."""
    app = flask.Flask(function.name)
    with app.app_context():
        entry: Any = function.entry_point()
    configure: Any = functions_framework._configure_app
    configure(app, entry, "http" if function.document_pattern is None else "cloudevent")
    return app


@cache
def load(name: str, folder: Path, signature_type: str = "http") -> flask.Flask:
    """Serve the function of a folder. Its module keeps its state in this process, as in an instance."""
    modules, path = dict(sys.modules), list(sys.path)
    create_app: Any = functions_framework.create_app
    try:
        app: flask.Flask = create_app(name, str(folder / "main.py"), signature_type)
    finally:
        _forget(modules, folder)
        sys.path[:] = path
    _function_registry.REGISTRY_MAP.pop(name, None)
    return app


def _forget(modules: Mapping[str, Any], folder: Path) -> None:
    """Remove what the framework leaves: its variables, and the folder's modules under top-level names."""
    for variable in FRAMEWORK_VARIABLES:
        os.environ.pop(variable, None)
    for name, module in list(sys.modules.items()):
        if modules.get(name) is not module and str(getattr(module, "__file__", "")).startswith(f"{folder}/"):
            del sys.modules[name]

"""Google's APIs without the generated clients, whose imports take a quarter of a cold start.

The package of an API imports all its clients, with three transports each, before the types of its messages. The kit
uses a channel and the types only. So it imports the types below a placeholder of the package, and removes the
placeholder. If other code imports the package later, that code gets the whole package, with the same types.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"

MESSAGES_OF_ANY_SIZE = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
"""The options of the generated clients' channels."""


def secure_channel(host: str, scopes: Sequence[str], credentials: object = None) -> Any:
    """Return a channel to an API, as the generated client opens it. Without `credentials`, the process has its own.

    Raises `GoogleAuthError` if it has none.
    """
    from google.api_core import grpc_helpers

    return grpc_helpers.create_channel(
        f"{host}:443", credentials, default_scopes=scopes, default_host=host, options=MESSAGES_OF_ANY_SIZE
    )


@cache
def routing_header(field: str, value: str) -> tuple[str, str]:
    """Return the header by which Google routes a request: the `value` of its `field`, a database or a queue.

    That of `google.api_core` imports its retries and 20 other modules.
    """
    return "x-goog-request-params", urlencode({field: value}, safe="/")


@contextmanager
def without_clients(package: str) -> Iterator[None]:
    """Let the body import the types of a package's messages alone. Only while a module is loaded, by one thread.

    If the package has been imported, this changes nothing.
    """
    if package in sys.modules:
        yield
        return
    spec = find_spec(package)
    assert spec, f"{package} is one of the kit's dependencies"
    sys.modules[package] = module_from_spec(spec)
    try:
        yield
    finally:
        del sys.modules[package]
        if not any(isinstance(finder, _WholePackage) and finder.package == package for finder in sys.meta_path):
            sys.meta_path.insert(0, _WholePackage(package))


class _WholePackage(MetaPathFinder, Loader):
    """Loads a package as it is, and adds the subpackage `types` to its names, which was imported before it."""

    def __init__(self, package: str) -> None:
        self.package = package
        self._loader: Loader | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.package:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return None: Python makes the module."""

    def exec_module(self, module: ModuleType) -> None:
        assert self._loader, "it has been found"
        assert module.__spec__, "it is being imported"
        module.__loader__ = module.__spec__.loader = self._loader
        if types := sys.modules.get(f"{self.package}.types"):
            module.__dict__["types"] = types
        self._loader.exec_module(module)

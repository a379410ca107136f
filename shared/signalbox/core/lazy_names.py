"""Public names of a package that are imported on first use.

A package lists its public names once, as imports under ``if TYPE_CHECKING:``. Type checkers read that list as it is,
and this module reads it again when a public name is used for the first time.

Some public names are also names of subpackages (`flows` is a function and `signalbox.flows` a folder), and the import
system stores each imported subpackage as an attribute of its parent. The package's class below does not store them, so
that `from signalbox import flows` returns the function whether or not the folder was imported before. Modules of such a
folder are imported by `from signalbox.flows import model`; `import signalbox.flows.model as model` finds the function.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package whose public names are imported on first use; no subpackage hides a public name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name == "_homes":
            self._homes = homes_of(ast.parse(Path(str(self.__file__)).read_bytes()))
            return self._homes
        if name == "__all__":
            return sorted(self._homes)
        if name in self._homes:
            try:
                return _public(self._homes[name], name)
            except ModuleNotFoundError as error:
                if extra := self.__dict__.get("_extra"):
                    error.add_note(f"{self.__name__} needs the extra `{extra}`: pip install 'signalbox[{extra}]'")
                raise
        subpackage = sys.modules.get(f"{self.__name__}.{name}")
        if subpackage is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return subpackage

    def __dir__(self) -> list[str]:
        return sorted(self._homes)


def make_lazy(package: str, extra: str = "") -> None:
    """Let a package import on first use the public names that its file imports under ``if TYPE_CHECKING:``.

    `extra` is the one that installs what the package imports; an import that fails names it.
    """
    module = sys.modules[package]
    module.__class__ = LazyPackage
    module.__dict__["_extra"] = extra


def homes_of(tree: ast.Module) -> dict[str, str]:
    """Return the homes of names that a file imports under ``if TYPE_CHECKING:``: modules, or packages of submodules."""
    blocks = [node.body for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def _public(home: str, name: str) -> Any:
    """Return the attribute `name` of the module `home`, or the submodule of that name."""
    module = import_module(home)
    return getattr(module, name) if hasattr(module, name) else import_module(f"{home}.{name}")

"""The library of the last release, loaded next to today's under the name `last_release`.

`library.tar.xz` contains the sources of the release as it was, without what is never in the zip of a function. Its
modules import one another under the other name, so both libraries are in one process and share nothing but the limits
that a test replaces and the catalogue's declarations.
"""

import re
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from signalbox.testing.replaced_limits import replaced

TODAY, LAST = "signalbox", "last_release"

SNAPSHOT = Path(__file__).parent / "library.tar.xz"

SHARED = {"core/limits.py": "DECLARED", "documents/machine/reactions.py": "WRITERS", "history/model.py": "HISTORY"}
"""What the catalogue declares, and a world replaces, by module: the same object in both libraries."""

_IMPORTS = re.compile(rf"^(\s*(?:from|import) ){TODAY}\b", re.MULTILINE)


@cache
def sources() -> Mapping[str, str]:
    """Return the source of each module of the last release, by its path below the package."""
    with tarfile.open(SNAPSHOT) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        return {member.name.partition("/")[2]: _text(archive, member) for member in files}


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    assert file is not None, "it is a file"
    return file.read().decode("utf-8")


class _Finder(MetaPathFinder, Loader):
    """Finds and loads the modules of the last release."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname.partition(".")[0] != LAST:
            return None
        inner = fullname.removeprefix(LAST).removeprefix(".").replace(".", "/")
        if f"{inner}.py" in sources():
            return spec_from_loader(fullname, self, origin=f"{inner}.py")
        package = f"{inner}/__init__.py" if inner else "__init__.py"
        spec = spec_from_loader(fullname, self, origin=package, is_package=True) if package in sources() else None
        if spec is not None:
            spec.submodule_search_locations = [str(Path(__file__).with_name(LAST) / inner)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None, "it was found by this finder"
        origin = str(module.__spec__.origin)
        if origin == "__init__.py":  # the public names, which load modules by the other name
            return
        code = _IMPORTS.sub(rf"\1{LAST}", sources()[origin])
        module.__file__ = str(Path(__file__).with_name(LAST) / origin)
        exec(compile(code, module.__file__, "exec"), module.__dict__)  # noqa: S102  this is how a module is loaded
        if name := SHARED.get(origin):
            module.__dict__[name] = getattr(counterpart(module.__name__, TODAY), name)


sys.meta_path.append(_Finder())


def counterpart(module: str, package: str) -> ModuleType | None:
    """Return the module of `package` that corresponds to a module of either library; None if there is none."""
    name = f"{package}.{module.partition('.')[2]}".rstrip(".")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            return None
        raise


@cache
def _limits() -> tuple[Any, ...]:
    """Return the limits of all subjects of the last release."""
    found = [path.removesuffix(".py").replace("/", ".") for path in sources() if path.endswith("/limits.py")]
    return tuple(import_module(f"{LAST}.{name}").LIMITS for name in found)


@contextmanager
def replaced_in_both(**values: float) -> Iterator[None]:
    """Replace limits of both libraries while the context is entered; the last release may lack some of them."""
    with ExitStack() as stack:
        stack.enter_context(replaced(**values))
        for limits in _limits():
            held = {name: value for name, value in values.items() if hasattr(limits, name)}
            stack.enter_context(limits.replaced(**held))
        yield

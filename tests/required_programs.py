"""Programs that some tests need and that a machine may lack: Chromium, Terraform, the Firestore emulator, gcloud,
curl, npm.

A test that needs a missing one is skipped (`Tool.require`). `tests.skips` prints, per tool, how many tests were skipped
and how to get it.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from signalbox_tools.local.store import firestore_emulator
from tests import chromium


@dataclass(frozen=True, slots=True)
class Tool:
    """A program, with a function that returns its path or address, or None where it is missing."""

    name: str
    find: Callable[[], str | None]
    how_to_get_it: str

    @property
    def reason(self) -> str:
        """The reason of a skipped test, by which the summary counts it."""
        return f"needs {self.name}"

    def require(self) -> str:
        """Return the tool's path or address. Skips the test where it is missing."""
        found = self.find()
        if found is None:
            pytest.skip(self.reason)
        return found

    def skip_without(self) -> pytest.MarkDecorator:
        """Return a mark that skips a test where the tool is missing."""
        return pytest.mark.skipif(self.find() is None, reason=self.reason)


def _emulator() -> str | None:
    emulator = firestore_emulator.find_installed()
    return str(emulator.jar) if emulator else None


def _gcloud() -> str | None:
    """Return gcloud, where it is a folder with its own modules: not in a package that has only the command."""
    found = shutil.which("gcloud")
    return found if found and (Path(found).resolve().parents[1] / "lib" / "googlecloudsdk").is_dir() else None


def _npm() -> str | None:
    return shutil.which("npm") if shutil.which("node") else None


CHROMIUM = Tool(
    "Chromium",
    chromium.path,
    "Debian: apt-get install chromium; macOS: brew install --cask chromium; or name another: CHROMIUM=/path/to/chrome",
)
TERRAFORM = Tool(
    "Terraform",
    lambda: shutil.which("terraform"),
    "install 1.9 or newer, see https://developer.hashicorp.com/terraform/install",
)
EMULATOR = Tool("the Firestore emulator", _emulator, firestore_emulator.HOW_TO_GET_IT)
GCLOUD = Tool("gcloud", _gcloud, "install it, see https://cloud.google.com/sdk/docs/install")
CURL = Tool("curl", lambda: shutil.which("curl"), "Debian: apt-get install curl; macOS has it")
NPM = Tool("Node.js and npm", _npm, "Debian: apt-get install nodejs npm; macOS: brew install node")

TOOLS = (CHROMIUM, TERRAFORM, EMULATOR, GCLOUD, CURL, NPM)

"""Put the kit's own files into the wheel, in `signalbox_tools/kit`, in the layout of the repository."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSIDE = "signalbox_tools/kit"
FILES = (
    "*.md",
    "LICENSE",
    "openapi.yaml",
    "docs/*",
    "docs/protocols/*.md",
    "docs/reference/*.md",
    "examples/*/README.md",
    "infra/README.md",
    "functions/requirements.txt",
    "functions/*/*.py",
    "infra/*.tf",
    "infra/catalogue.yaml",
    "infra/bootstrap/*.tf",
    "infra/bootstrap/state_lifecycle.json",
    "infra/environments/*.tfvars.json",
    "infra/modules/*/*.tf",
)


class KitFiles(BuildHookInterface[Any]):
    """Adds the files to a wheel. An editable installation reads them where they are."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "wheel" and version != "editable":
            root = Path(self.root)
            files = (path for pattern in FILES for path in root.glob(pattern) if path.is_file())
            build_data["force_include"] |= {str(path): f"{INSIDE}/{path.relative_to(root)}" for path in files}

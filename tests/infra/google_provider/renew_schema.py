"""Renew `schema.json` from the provider that `infra/versions.tf` demands.

    python -m tests.infra.google_provider.renew_schema          # needs Terraform, and its registry once

Terraform prints the provider's schema; the kinds that `infra/` uses are kept of it, without descriptions. Which values
an argument takes is not printed: those are carried over from the schema that was there, so look through the provider's
upgrade notes for new ones, and for what newly replaces a resource (`service_requirements.py`).
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).with_name("schema.json")
INFRA = Path(__file__).parents[3] / "infra"
SOURCE = "registry.terraform.io/hashicorp/google"
USED = re.compile(r'^(resource|data) "(google_\w+)"', re.MULTILINE)
KEPT = ("type", "required", "optional", "computed")
Json = dict[str, Any]


def renewed(printed: Mapping[str, Any], version: str, before: Mapping[str, Any]) -> Json:
    """Return the content of schema.json, made of what `terraform providers schema -json` printed."""
    provider = printed["provider_schemas"][SOURCE]
    kinds = {"resources": ("resource", "resource_schemas"), "data_sources": ("data", "data_source_schemas")}
    made: Json = {"attribution": before["attribution"], "provider_version": version}
    made["provider"] = _block(provider["provider"]["block"], {})
    for section, (word, printed_section) in kinds.items():
        made[section] = {
            kind: _block(provider[printed_section][kind]["block"], before[section].get(kind, {}))
            for kind in sorted({name for used, name in _used() if used == word})
        }
    return made


def _used() -> Iterator[tuple[str, str]]:
    for file in INFRA.rglob("*.tf"):
        yield from USED.findall(file.read_text("utf-8"))


def _block(block: Mapping[str, Any], before: Mapping[str, Any]) -> Json:
    made: Json = {}
    if block.get("attributes"):
        old = before.get("attributes", {})
        made["attributes"] = {name: _attribute(each, old.get(name, {})) for name, each in block["attributes"].items()}
    if block.get("block_types"):
        old = before.get("block_types", {})
        made["block_types"] = {name: _nested(each, old.get(name, {})) for name, each in block["block_types"].items()}
    return made


def _attribute(attribute: Mapping[str, Any], before: Mapping[str, Any]) -> Json:
    kept = {name: attribute[name] for name in KEPT if attribute.get(name)}
    return kept | ({"enum": before["enum"]} if "enum" in before else {})


def _nested(block: Mapping[str, Any], before: Mapping[str, Any]) -> Json:
    counts = {name: block[name] for name in ("nesting_mode", "min_items", "max_items") if block.get(name)}
    return counts | {"block": _block(block["block"], before.get("block", {}))}


def _printed(folder: str) -> tuple[Json, str]:
    """Return the schema of the provider that versions.tf demands, and its version."""
    (Path(folder) / "versions.tf").write_text(re.sub(r"\n  backend .*", "", (INFRA / "versions.tf").read_text()))
    versions = (Path(folder) / "versions.tf").read_text()
    (Path(folder) / "versions.tf").write_text(versions[: versions.index("\nprovider ")])
    for command in (("init", "-input=false"), ("providers", "schema", "-json"), ("version", "-json")):
        ended = subprocess.run(("terraform", *command), cwd=folder, check=True, capture_output=True, text=True)
        if command[0] == "providers":
            schema: Json = json.loads(ended.stdout)
    version: str = json.loads(ended.stdout)["provider_selections"][SOURCE]
    return schema, version


def main() -> None:
    before = json.loads(SCHEMA.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        printed, version = _printed(folder)
    made = renewed(printed, version, before)
    SCHEMA.write_text(json.dumps(made, indent=1, sort_keys=False) + "\n", "utf-8")
    sys.stdout.write(f"{SCHEMA.name}: {version}, {len(made['resources'])} kinds\n")


if __name__ == "__main__":
    main()

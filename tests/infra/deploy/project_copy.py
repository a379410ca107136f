"""A copy of the project that is deployed in this process: the real Terraform on the stand-in, gcloud from a table.

It may have the catalogue of another project.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from signalbox_tools.deploy import deployment_target, field_settings, programs
from signalbox_tools.deploy.deployment_steps import Deployment
from signalbox_tools.deploy.programs import Outcome
from signalbox_tools.deploy.waiting_clock import Clock
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.scripted_programs import Script
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.virtual_clock import VirtualClock
from tests.infra.workspace import INFRA, Workspace


class Project:
    """A folder, a clock by which everything in it waits, and what `signalbox deploy` uses. The state is in memory."""

    def __init__(
        self,
        folder: Path,
        google: GoogleProvider,
        zips: Path,
        gcloud: Script,
        environment: str = "dev",
        catalogue: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder, self.google, self.gcloud, self.environment = folder, google, gcloud, environment
        self.applies = 0
        Workspace(folder, google, zips)
        if catalogue is not None:
            (folder / "infra" / "catalogue.yaml").write_text(yaml.safe_dump(dict(catalogue)), "utf-8")
        for name in ("functions", "examples", "shared"):
            (folder / name).symlink_to(INFRA.parent / name)
        (programs := folder / "bin").mkdir()
        self.clock = VirtualClock(programs)
        self._environment = google.environment() | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "TF_VAR_rights_seconds": "120",
            "TF_VAR_objectives": "true" if catalogue is None else "false",
        }

    def flow(self, said: list[str], answer: str = "y") -> Deployment:
        """Return the commands, which write to a list, and whose every question is answered so."""
        place = deployment_target.read(PROJECT, self.environment, root=self.folder)
        clock = Clock(self.clock.now, self.clock.sleep)
        return Deployment(
            place, said.append, lambda question: answer if "Type" in question else "y", self.run, clock, "http://x/"
        )

    def terraform(self, *arguments: str, folder: str = "") -> Outcome:
        """Run Terraform as the deployment did, or the bootstrap in its `folder`."""
        work = deployment_target.read(PROJECT, self.environment, root=self.folder).work
        data = {"TF_DATA_DIR": str(work.with_name(f"{PROJECT}-{folder}") if folder else work)}
        return self.run(("terraform", *arguments), folder=self.folder / "infra" / folder, environment=data)

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The settings of the cloud's fields, as gcloud lists them: the database's default is one of them."""
        found = [value for (kind, _), value in self.google.cloud.existing.items() if kind == field_settings.FIELD]
        path = f"projects/{PROJECT}/databases"
        return [{"name": f"{path}/d/collectionGroups/__default__/fields/*"}] + [
            {
                "name": f"{path}/{each['database']}/collectionGroups/{each['collection']}/fields/{each['field']}",
                "indexConfig": {
                    "indexes": [
                        {"queryScope": index["query_scope"], "fields": [_field_of(index)]}
                        for config in each["index_config"]
                        for index in config["indexes"]
                    ]
                },
            }
            for each in found
        ]

    def run(self, command: Sequence[str], *, environment: Any = None, **options: Any) -> Outcome:
        """Run a program; Terraform gets no bucket for its state, and does not wait for a lock."""
        if command[:5] == ("gcloud", "firestore", "indexes", "fields", "list"):
            return Outcome(0, json.dumps(self.fields))
        if command[0] == "gcloud":
            return self.gcloud(command)
        if command[1] == "apply" and options["folder"].name == "infra":
            self.applies += 1
        given = [each for each in command if not each.startswith(("-backend-config", "-lock-timeout"))]
        return programs.run(given, environment=self._environment | (environment or {}), **options)


def _field_of(index: dict[str, str]) -> dict[str, str]:
    return {"order": index["order"]} if index["order"] else {"arrayConfig": index["array_config"]}

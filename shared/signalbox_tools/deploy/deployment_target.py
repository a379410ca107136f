"""The target of a deployment: a project, an environment (a tfvars file), and the names derived from them.

Terraform decides the names (`infra/locals.tf`). Those that are compared with the project before Terraform runs are
repeated here, and `tests/infra/deploy` checks that both agree.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from signalbox.catalogue.project import KIT, Project
from signalbox.catalogue.reading import Catalogue, Trigger, load, url_segment

REGION_DEFAULT = "us-central1"
SETTING = re.compile(r'^\s*(\w+)\s*=\s*(?:"([^"\n]*)"|(\w+))\s*(?:#.*)?$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Target:
    """An environment in a project. `settings` are the plain values of its tfvars file; None if that file does not
    exist.
    """

    project: str
    environment: str
    region: str
    settings: Mapping[str, str] | None
    root: Path = KIT.root

    @property
    def folder(self) -> Project:
        """The project's folder, and where its files are."""
        return Project.at(self.root)

    @property
    def infra(self) -> Path:
        """The folder in which Terraform runs."""
        return self.folder.infra

    @property
    def variables(self) -> Path:
        """The tfvars file of the environment."""
        return self.folder.variables(self.environment)

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue as it is now. Raises `CatalogueError`."""
        return load(self.folder.catalogue)

    @property
    def triggers(self) -> Sequence[Trigger]:
        """The triggers of the environment: those of the kit's examples only if it deploys these (infra/locals.tf)."""
        catalogue, all_deployed = self.catalogue, self.setting("examples", "false") == "true"
        examples = {name for name, each in catalogue.functions.items() if self.root / "examples" in each.folder.parents}
        return [each for each in catalogue.triggers.values() if all_deployed or each.function not in examples]

    @property
    def work(self) -> Path:
        """The folder for Terraform's working files. Each deployment has one, so that it cannot use another's state."""
        return self.folder.state / "terraform" / f"{self.project}-{self.environment}"

    @property
    def state_bucket(self) -> str:
        return f"{self.project}-signalbox-state"

    @property
    def deployer(self) -> str:
        """The account that deploys from Cloud Build and GitHub (infra/bootstrap)."""
        return f"signalbox-deployer@{self.project}.iam.gserviceaccount.com"

    @property
    def begin(self) -> str:
        """The prefix of every name, with its hyphen."""
        prefix = self.setting("prefix", "")
        return f"{prefix}-" if prefix else ""

    @property
    def database(self) -> str:
        return self.setting("database", f"signalbox-{self.setting('environment', self.environment)}")

    @property
    def database_location(self) -> str:
        return self.setting("database_location", self.region)

    @property
    def own_url(self) -> str:
        """The base of the functions' own addresses, which identity tokens name as their audience."""
        return f"https://{self.region}-{self.project}.cloudfunctions.net/{self.begin}"

    @property
    def base_url(self) -> str:
        """The base of the addresses that people call: with `domain_only`, the domain's."""
        return f"https://{self.setting('domain', '')}/" if self.setting("domain_only", "") == "true" else self.own_url

    def audience(self, url: str) -> str:
        """Return the audience of a token for a function's address: Cloud Run knows the functions' own ones only."""
        domain = f"https://{self.setting('domain', '')}/"
        return f"{self.own_url}{url.removeprefix(domain)}" if url.startswith(domain) else url

    def setting(self, name: str, default: str) -> str:
        """Return a value of the tfvars file, as text; `null` counts as absent."""
        given = (self.settings or {}).get(name, "null")
        return default if given == "null" else given

    def service(self, function: str) -> str:
        """Name a function, a queue or a schedule as it is named in the cloud."""
        return f"{self.begin}{url_segment(function)}"


def read(project: str, environment: str, region: str = "", root: Path | None = None) -> Target:
    """Read an environment. The region is the one given, else that of its tfvars file, else Terraform's default.

    `root` is the folder of the project; None: the one in which the program runs. Raises `NotAProject`.
    """
    root = root or Project.find().root
    file = Project.at(root).variables(environment)
    settings = settings_of(file.read_text("utf-8")) if file.is_file() else None
    region = region or (settings or {}).get("region", REGION_DEFAULT)
    return Target(project, environment, region, settings, root)


def settings_of(text: str) -> Mapping[str, str]:
    """Return the scalar values of a tfvars file, as text."""
    return MappingProxyType({name: quoted or bare for name, quoted, bare in SETTING.findall(text)})

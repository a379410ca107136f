"""The target of a deployment: a project, an environment with its settings, and the names derived from them.

Functions whose entries name a `database` are a separate deployment, ENVIRONMENT.DATABASE: with another state, prefix,
database, and everything that follows from them. Its settings are those of the environment's file, except for those
that only one deployment can have; a file ENVIRONMENT.DATABASE.tfvars.json may change them.

Names and addresses are those of `infra/locals.tf`. The ones here are needed before Terraform has run, or without it: to
compare them with the project, or as the addresses that a command calls. `tests/infra/deploy` checks that both agree.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from signalbox.catalogue.project import KIT, SETTINGS, Project
from signalbox.catalogue.reading import Catalogue, CatalogueError, Trigger, database_in, databases_of, load, url_segment
from signalbox.core.kit_names import queue_of
from signalbox_tools.deploy.programs import CommandFailed
from signalbox_tools.function_deployments import is_example

REGION_DEFAULT = "us-central1"
OF_ONE_DEPLOYMENT = ("create_database", "data_access_logs", "database", "domain", "domain_only", "examples", "prefix")
"""Settings that the deployments of other databases do not take from the environment's file."""

COMMAND = re.compile(
    r"(?<![\w.])signalbox (adopt|bootstrap|console|deploy|destroy|failures|logs|pause|plan|resume|restore|rollback"
    r"|smoke|status|unlock)\b(?! -)(?!-)"
)
"""A command of `signalbox` for a deployment, without options."""

Value = TypeVar("Value", str, bool)


@dataclass(frozen=True, slots=True)
class Target:
    """An environment in a project. `settings` is the content of its file, or None if there is no such file."""

    project: str
    environment: str
    region: str
    settings: Mapping[str, Any] | None
    root: Path = KIT.root

    @property
    def folder(self) -> Project:
        """The project, which has the folder and the places of its files."""
        return Project.at(self.root)

    @property
    def infra(self) -> Path:
        """The folder in which Terraform runs."""
        return self.folder.infra

    @property
    def variables(self) -> Path:
        """The file with the settings for Terraform: the project's, or the kit's.

        For the deployment of a database, `write_variables` writes it.
        """
        return self.work / f"variables{SETTINGS}" if self.of_database else self.folder.variables(self.environment)

    @property
    def of_database(self) -> str:
        """The database in the entries of the functions that are deployed; empty for functions without one."""
        return self.environment.partition(".")[2]

    @property
    def first(self) -> "Target":
        """The deployment of the environment's functions without a database."""
        return read(self.project, self.environment.partition(".")[0], root=self.root)

    @property
    def derived_prefix(self) -> str:
        """The prefix that functions without a database expect: a database's own file may have another one."""
        return "-".join(filter(None, (self.first.setting("prefix", ""), self.of_database)))

    def write_variables(self) -> None:
        """Write the settings of a database's deployment."""
        if self.of_database:
            self.work.mkdir(parents=True, exist_ok=True)
            self.variables.write_text(json.dumps(dict(self.settings or {}), indent=2), "utf-8")

    @property
    def own_file(self) -> Path:
        """The project's file for the environment's settings, relative to the project. It need not exist."""
        return (self.folder.environments / f"{self.environment}{SETTINGS}").relative_to(self.root)

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue as it is now. Raises `CatalogueError`."""
        return load(self.folder.catalogue, database=self.of_database)

    @property
    def triggers(self) -> Sequence[Trigger]:
        """The triggers of the environment. It has the triggers of examples only if it deploys the examples."""
        catalogue, with_examples = self.catalogue, self.setting("examples", False)
        of_example = {name for name, each in catalogue.functions.items() if is_example(catalogue, each)}
        return [each for each in catalogue.triggers.values() if with_examples or each.function not in of_example]

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
    def name_prefix(self) -> str:
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
        return f"https://{self.region}-{self.project}.cloudfunctions.net/{self.name_prefix}"

    @property
    def base_url(self) -> str:
        """The base of the addresses that people call.

        It is the base of the domain if people can call the functions only through the domain.
        """
        return f"https://{self.setting('domain', '')}/" if self.setting("domain_only", False) else self.own_url

    @property
    def options(self) -> str:
        """The options of `signalbox` that name this deployment, from any machine."""
        return f"-p {self.project} -e {self.environment} --region {self.region}"

    def complete(self, text: str) -> str:
        """Return a text whose commands of `signalbox` name this deployment, so that they can be run as they are."""
        return COMMAND.sub(lambda found: f"{found[0]} {self.options}", text)

    def keep(self, name: str, value: str | None) -> str:
        """Write a setting into the project's file of the environment. Return the sentence that reports it."""
        file = self.root / self.own_file
        base = file if self.of_database else self.folder.variables(self.environment)
        settings = {**((_settings(base) or {}) if base.is_file() else {}), name: value}
        file.parent.mkdir(exist_ok=True)
        (newer := file.with_suffix(".new")).write_text(f"{json.dumps(settings, indent=2)}\n", "utf-8")
        newer.replace(file)
        return f'Written into {self.own_file}: "{name}": {json.dumps(value)}. Commit it.'

    def audience(self, url: str) -> str:
        """Return the audience of a token for a function's address.

        Cloud Run knows only the functions' own addresses.
        """
        domain = f"https://{self.setting('domain', '')}/"
        return f"{self.own_url}{url.removeprefix(domain)}" if url.startswith(domain) else url

    def setting(self, name: str, default: Value) -> Value:
        """Return a setting, or the default if it is absent or null. Raises `CommandFailed` if its type is wrong."""
        value = (self.settings or {}).get(name)
        if value is None:
            return default
        if not isinstance(value, type(default)):
            kind = "true or false" if isinstance(default, bool) else "a text in quotes"
            raise CommandFailed(f"{self.own_file}: {name} is {json.dumps(value)}; write {kind}")
        return value

    def service(self, function: str) -> str:
        """Name a function, a queue or a schedule as it is named in the cloud."""
        return f"{self.name_prefix}{url_segment(function)}"

    def own_queues(self, names: Iterable[str]) -> dict[str, str]:
        """Return the queues of this environment among those of a region, each with its name without the prefix.

        Shards that the catalogue no longer has are among them: they stay, with their tasks.
        """
        own = {self.service(queue): queue for queue in self.catalogue.queues}
        return {each: own[queue] + each.removeprefix(queue) for each in names if (queue := queue_of(each)) in own}


def read(project: str, environment: str, region: str = "", root: Path | None = None) -> Target:
    """Read an environment.

    The region is the given one, or that of the environment's file, or Terraform's default. `root` is the folder of the
    project (None: the project in which the program runs). Raises `NotAProject`, or `CommandFailed` if the environment's
    file is not a JSON object or its name is not ``NAME`` or ``NAME.DATABASE``.
    """
    root = root or Project.find().root
    try:
        database_in(environment)
    except CatalogueError as error:
        raise CommandFailed(str(error)) from error
    found = Target(project, environment, region, _settings_of(Project.at(root), environment), root)
    return replace(found, region=region or found.setting("region", REGION_DEFAULT))


def databases_below(target: Target) -> Sequence[Target]:
    """Return the deployments of the databases of an environment. Raises `CatalogueError`, `CommandFailed`."""
    if target.of_database:
        return ()
    names = (f"{target.environment}.{each}" for each in databases_of(target.folder.catalogue))
    return [read(target.project, name, target.region, target.root) for name in names]


def in_order(first: Target) -> Iterator[Target]:
    """Iterate over an environment's deployments. Each is read when the one before has kept settings in their file."""
    yield first
    yield from databases_below(first)


def _settings_of(project: Project, environment: str) -> Mapping[str, Any] | None:
    name, _, database = environment.partition(".")
    file = project.variables(name)
    if not file.is_file() or not database:
        return _settings(file) if file.is_file() else None
    common, own = _settings(file), project.variables(environment)
    derived = {
        "prefix": "-".join(filter(None, (common.get("prefix"), database))),
        "database": f"signalbox-{common.get('environment') or name}-{database}",
        "catalogue_database": database,
    }
    kept = {setting: value for setting, value in common.items() if setting not in OF_ONE_DEPLOYMENT}
    return MappingProxyType({**kept, **derived, **(_settings(own) if own.is_file() else {})})


def _settings(file: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise CommandFailed(f"{file}: {error}") from error
    if not isinstance(content, dict):
        raise CommandFailed(f'{file} must be a JSON object such as {{"environment": "dev"}}')
    return MappingProxyType(content)

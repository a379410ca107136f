"""Every variable refuses what cannot work, and its message names the remedy."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.infra.google_provider.server import GoogleProvider
from tests.infra.google_provider.service_requirements import NAMES
from tests.infra.workspace import INFRA, Workspace

pytestmark = pytest.mark.slow

KEY = "projects/demo-keys/locations/us-central1/keyRings/ring/cryptoKeys/key"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"project_id": "My Project"}, "project_id is a project's id, not its name or number"),
    ({"region": "us-central1-a"}, "region is a region such as us-central1, not a zone"),
    ({"database_location": "mars"}, "database_location is a region such as us-central1 or a multi-region such as nam5"),
    ({"environment": "production"}, "environment must be dev, staging or prod"),
    ({"prefix": "dev-"}, "prefix must begin with a letter"),
    ({"prefix": "developmental"}, "the longest function leaves 12 for it. Shorten the prefix"),
    ({"database": "db"}, "database must be (default), or 4 to 63 lower case letters"),
    ({"dist_dir": "../nowhere"}, "Run `signalbox package` first"),
    ({"invokers": ["allUsers"]}, "To open a function to everybody, set `public: true` in its entry"),
    ({"deployer": "ann@example.com"}, "deployer is one IAM member such as user:ann@example.com"),
    ({"deployers": "user:ann@example.com"}, "deployers is one group, as group:deployers@example.com"),
    ({"alert_email": "ann"}, "alert_email must be one e-mail address"),
    ({"notification_channels": ["ops@example.com"]}, "notification_channels are ids such as projects/my-project/"),
    ({"log_retention_days": 0}, "log_retention_days is a whole number of days from 1 to 3650"),
    (
        {"cmek_key": KEY.partition("/cryptoKeys")[0]},
        "cmek_key is projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY",
    ),
    ({"domain": "https://api.example.com"}, "domain is a name such as api.example.com"),
    (
        {"domain_only": True, "domain": None},
        "domain_only needs domain: without it nobody could call the functions for people",
    ),
    ({"rights_seconds": -1}, "rights_seconds is a whole number of seconds"),
    ({"exports": {"bucket_location": "US-EAST4"}}, "exports.bucket_location is a location of Cloud Storage"),
    ({"exports": {"bucket_location": "us", "schedule": "nightly"}}, "exports.schedule has five fields, as cron"),
    ({"exports": {"bucket_location": "us", "keep_days": 0}}, "exports.keep_days is a whole number of days"),
]

BOOTSTRAP_REFUSES = [
    ("project_id=Demo", "project_id is a project's id, not its name or number"),
    ("region=us-central1-a", "region is a region such as us-central1, not a zone"),
    ("github_repository=https://github.com/me/mine", "github_repository is OWNER/NAME"),
    ("github_repository=me/mine", "github_repository needs github_repository_id"),
    ("github_repository_id=me/mine", "github_repository_id is the repository's number"),
    ("billing_account=my account", "billing_account is an id such as 0123AB-CDEF01-234567"),
    ("budget=0", "budget is a whole number of the billing account's currency"),
    ('budget_channels=["ops@example.com"]', "budget_channels are at most five ids such as"),
]

ACCEPTED: list[dict[str, Any]] = [
    {"database_location": "eur3", "prefix": "developmen", "database": "(default)", "alert_email": "ann@example.com"},
    {"database_location": "eur3", "cmek_key": KEY.replace("us-central1", "europe"), "data_access_logs": True},
    {
        "environment": "staging",
        "region": "europe-west1",
        "invokers": ["group:all@example.com"],
        "create_database": False,
    },
]


@pytest.fixture(scope="module")
def unapplied(google: GoogleProvider, zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = Workspace(tmp_path_factory.mktemp("unapplied"), google, zips)
    workspace.initialise()
    return workspace


@pytest.fixture(scope="module")
def refused(unapplied: Workspace) -> list[str]:
    """Return Terraform's errors for all bad values. A plan names every bad variable, so there are as many plans as
    values of one.
    """
    plans: list[dict[str, Any]] = []
    for values, _ in REFUSED:
        free = next((each for each in plans if not each.keys() & values.keys()), None)
        if free is None:
            plans.append(free := {})
        free |= values
    return [error for given in plans for error in errors(unapplied, given)]


def errors(workspace: Workspace, variables: dict[str, Any]) -> list[str]:
    """Return the errors of a plan with these variables, each in one line: one for every variable."""
    ended = workspace.plan(check=False, **variables)
    found = " ".join(ended.stderr.split()).split("Error: ")[1:]
    assert (ended.returncode, len(found)) == (1, sum(each is not None for each in variables.values())), ended.stderr
    return found


@pytest.mark.parametrize(("variables", "message"), REFUSED)
def test_a_bad_value_is_refused_with_what_to_do(refused: list[str], variables: dict[str, Any], message: str) -> None:
    [error] = [each for each in refused if message in each]
    assert f'"{next(iter(variables))}" {{' in error


@pytest.mark.parametrize("variables", ACCEPTED)
def test_good_values_are_accepted(unapplied: Workspace, variables: dict[str, Any]) -> None:
    assert unapplied.plan(**variables).returncode == 0


@pytest.mark.parametrize(("variable", "message"), BOOTSTRAP_REFUSES)
def test_preparing_a_project_refuses_a_bad_value(unapplied: Workspace, variable: str, message: str) -> None:
    unapplied.run("-chdir=bootstrap", "init", "-input=false")
    ended = unapplied.run(
        "-chdir=bootstrap", "plan", "-input=false", "-var=project_id=a-demo", f"-var={variable}", check=False
    )
    assert ended.returncode == 1
    assert message in " ".join(ended.stderr.split())


def test_a_function_whose_name_is_too_short_for_an_account_is_refused(
    google: GoogleProvider, zips: Path, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path, google, zips)
    named = {"ab": {"folder": "examples/quilt", "invoked_by": ["people"], "tasks": []}}
    workspace.edit_catalogue(lambda catalogue: catalogue["functions"].update(named))
    (tmp_path / "dist" / "ab.zip").touch()
    workspace.initialise()
    assert "The account fn-ab must have 6 characters or more" in " ".join(workspace.plan(check=False).stderr.split())


def test_every_validation_has_a_bad_value_here() -> None:
    counts = {path.relative_to(INFRA).parent.as_posix(): validations(path) for path in INFRA.rglob("variables.tf")}
    assert counts == {".": len(REFUSED), "bootstrap": len(BOOTSTRAP_REFUSES), "modules/function": 0}


def validations(path: Path) -> int:
    return path.read_text("utf-8").count("validation {")


def test_the_modules_own_tests_pass(unapplied: Workspace) -> None:
    assert "0 failed" in unapplied.run("test").stdout


def test_the_longest_project_and_prefix_fit_into_a_buckets_name() -> None:
    [bound] = re.findall(r"length\(var\.prefix\) <= (\d+)", (INFRA / "variables.tf").read_text("utf-8"))
    names = re.findall(
        r'name += "\$\{var.project_id\}-(.*)"', "".join(each.read_text("utf-8") for each in INFRA.glob("*.tf"))
    )
    assert len(names) >= 2
    longest = [f"{'p' * 30}-{name.replace('${local.name_prefix}', 'x' * int(bound) + '-')}" for name in names]
    assert [name for name in longest if not re.fullmatch(NAMES["google_storage_bucket"]["name"], name)] == []

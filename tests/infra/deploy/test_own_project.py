"""A user's own project outside the clone is made, checked, tested, served, packaged and deployed with the wheel.

The wheel is installed into an environment that has the locked packages and no path to the repository. The project's
commands run there as a user types them; it is deployed to the stand-in for the cloud.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from signalbox.catalogue.reading import load
from signalbox.catalogue.version import VERSION
from signalbox_tools.local import child_processes
from signalbox_tools.packaging.zip_building import build
from tests.infra.deploy.gcloud import PROJECT, TOKEN, Gcloud
from tests.infra.deploy.identity_gate import gate
from tests.infra.deploy.user_clone import PROJECT as ROOT
from tests.infra.deploy.user_clone import fake_environment
from tests.infra.google_provider.server import GoogleProvider
from tests.started_commands import started

pytestmark = [pytest.mark.marathon, pytest.mark.timeout(900)]  # it installs the wheel

SECONDS_MAX = 400
OF_MAKE = ("ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS")
"""Variables of the make that runs the tests, with the arguments of its pytest."""

KITS = ("sweep",)
"""The functions of the kit that the flow of a new project needs."""

NOT_THERE = (*OF_MAKE, "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CI", "YES", "CONFIRM", "PORT", "DATA", "LOG")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the wheel and the locked packages; the repository is not on its path."""
    folder = tmp_path_factory.mktemp("installed") / ".venv"
    venv.create(folder)
    python = folder / "bin" / "python"
    home = outside(folder)
    command = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index")
    subprocess.run((*command, str(wheel)), env=home, check=True)
    [packages] = (folder / "lib").glob("python*/site-packages")
    (packages / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")  # a path file in it is not followed
    where = (str(python), "-c", "import signalbox; print(signalbox.__file__)")
    assert subprocess.run(where, env=home, capture_output=True, text=True, check=True).stdout.startswith(str(packages))
    return folder


def outside(environment: Path) -> dict[str, str]:
    """Return the variables of a shell in which that environment is active."""
    kept = {name: value for name, value in os.environ.items() if name not in NOT_THERE}
    return kept | {"PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"}


class Shop:
    """A project and the commands that run in it."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.folder, self.variables = folder, variables

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.variables | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )


@pytest.fixture(scope="module")
def shop(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Return a project that was made in an empty folder; its .venv is the environment with the wheel."""
    folder = tmp_path_factory.mktemp("empty")
    made = Shop(folder, outside(installed)).run("signalbox", "new", "my-shop")
    assert made.returncode == 0, made.stdout
    shop = Shop(folder / "my-shop", outside(installed))
    (shop.folder / ".venv").symlink_to(installed)
    for name in ("ready", "checks"):  # nothing is installed from an index
        (installed / name).touch()
    return shop


@pytest.fixture(scope="module")
def served(shop: Shop) -> Iterator[str]:
    """Return the address at which `signalbox dev` serves the project, until Ctrl-C."""
    [port] = child_processes.free_ports(1)
    command = ("signalbox", "dev", f"--port={port}")
    with started(command, shop.folder, shop.variables, subprocess.PIPE) as process:
        assert process.stdout is not None
        said = [next(iter(process.stdout.readline, b""), b"").decode() for _ in range(2)]
        assert any(line.startswith("Serving ") for line in said), said
        yield f"http://127.0.0.1:{port}/"
    assert process.returncode == 0


def test_the_wheel_has_all_that_the_repository_deploys(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    code = [path.removeprefix("shared/") for path in listed if path.startswith("shared/signal")]
    kits = [path for path in listed if re.match(r"functions/.*\.(py|txt)$|infra/.*\.(tf|tfvars\.json)$|openapi", path)]
    wanted = {*code, *(f"signalbox_tools/kit/{path}" for path in kits)}
    assert {path for path in wanted if "/tests/" not in path} - inside == set()
    assert wheel.name == f"signalbox-{VERSION}-py3-none-any.whl"


def test_the_project_installs_the_wheel_that_made_it(shop: Shop, wheel: Path) -> None:
    assert (shop.folder / "wheels" / wheel.name).read_bytes() == wheel.read_bytes()
    assert f'signalbox = {{ path = "wheels/{wheel.name}" }}' in (shop.folder / "pyproject.toml").read_text()


def test_its_tests_pass_and_so_do_strict_types_and_lint(shop: Shop) -> None:
    tested = shop.run("make", "test")
    assert (tested.returncode, "1 passed" in tested.stdout) == (0, True), tested.stdout
    checked = shop.run("make", "check")
    assert (checked.returncode, checked.stdout.count("no issues found in 1 source file")) == (0, 2), checked.stdout


def test_a_wrong_argument_is_an_error_of_types(shop: Shop, tmp_path: Path) -> None:
    copy = Shop(tmp_path / "copy", shop.variables)
    shutil.copytree(shop.folder, copy.folder, symlinks=True)
    main = copy.folder / "functions" / "orders" / "main.py"
    main.write_text(main.read_text().replace("handle_orders.start(key,", "handle_orders.start(7,"))
    checked = copy.run(".venv/bin/python", "-m", "mypy")
    assert (checked.returncode, 'has incompatible type "int"' in checked.stdout) == (1, True), checked.stdout


def test_it_is_served_with_the_parts_of_the_kit_that_it_uses(shop: Shop, served: str) -> None:
    with httpx.Client(base_url=served, timeout=30) as client:
        assert client.post("orders/a").status_code == 202
        for _ in range(1_000):
            if (found := client.get("orders/a").json())["state"] == "completed":
                break
        assert found == {"state": "completed", "result": "a is done"}
        missing = client.put("documents/b", json={"c": 1})
        assert (missing.status_code, "add `api: [documents]`" in missing.json()["detail"]) == (404, True)
        assert client.get("openapi.yaml").status_code == 200
        assert client.get("console").status_code == 200
    status = shop.run("signalbox", "status", "--json")
    assert (status.returncode, '"status"' in status.stdout) == (0, True), status.stdout


def test_its_zips_have_the_librarys_source_as_those_of_the_repository(shop: Shop, tmp_path: Path) -> None:
    packaged = shop.run("signalbox", "package")
    assert packaged.returncode == 0, packaged.stdout
    build(load(), KITS, tmp_path)
    assert {path.name for path in (shop.folder / "dist").iterdir()} == {"orders.zip", *(f"{name}.zip" for name in KITS)}
    own = {path.name: path.read_bytes() for path in (shop.folder / "dist").iterdir()}
    assert [path.name for path in tmp_path.iterdir() if own[path.name] != path.read_bytes()] == []


@contextlib.contextmanager
def deploying(
    shop: Shop, served: str, own_google: GoogleProvider, state_url: str, folder: Path
) -> Iterator[tuple[Shop, Gcloud]]:
    """Yield the project with the stand-ins for the cloud, and the gcloud among them."""
    gcloud = Gcloud(folder / "gcloud")
    programs = gcloud.folder / "bin"
    with gate(lambda: served, TOKEN, "dev-") as address:
        fakes = fake_environment(own_google.environment(), programs, state_url, address)
        variables = shop.variables | {name: each for name, each in fakes.items() if name != "PATH"}
        variables |= {"PATH": f"{programs}{os.pathsep}{shop.variables['PATH']}", "TF_VAR_rights_seconds": "0"}
        yield Shop(shop.folder, variables), gcloud


def deployed_functions(google: GoogleProvider) -> set[str]:
    functions = {name for kind, name in google.cloud.existing if kind == "google_cloudfunctions2_function"}
    return {name.rpartition("/")[2] for name in functions}


def test_it_is_planned_deployed_and_smoke_tested_and_grows_and_shrinks_with_its_code(
    shop: Shop, served: str, own_google: GoogleProvider, state_url: str, tmp_path: Path
) -> None:
    code = shop.folder / "functions" / "orders" / "main.py"
    before = code.read_text()
    with deploying(shop, served, own_google, state_url, tmp_path) as (cloud, gcloud):
        planned = cloud.run("signalbox", "plan", "-p", PROJECT)
        assert (planned.returncode, "adds flows, from functions/orders/main.py" in planned.stdout) == (0, True)
        assert own_google.cloud.operations == []
        deployed = cloud.run("signalbox", "deploy", "-p", PROJECT, "--yes")
        assert (deployed.returncode, "Everything works. A call of orders" in deployed.stdout) == (0, True)
        assert deployed_functions(own_google) == {"dev-orders", "dev-sweep"}
        assert (shop.folder / "signalbox.lock.yaml").is_file()
        assert not (shop.folder / "infra").exists()
        try:
            code.write_text(
                before.replace("import Function,", "import Function, batch,").replace(
                    "    handle_orders.start(",
                    "    batch(key).populate([work.call(key=key)])\n    handle_orders.start(",
                )
            )
            grown = cloud.run("signalbox", "deploy", "-p", PROJECT, "--yes")
            added = r"  adds batches, from functions/orders/main\.py:\d+: batch_expand, the queue batches\n"
            assert (grown.returncode, len(re.findall(added, grown.stdout))) == (0, 1), grown.stdout
            assert deployed_functions(own_google) == {"dev-orders", "dev-batch-expand", "dev-sweep"}
        finally:
            code.write_text(before)
        queues = {"tasks queues list": "dev-batches dev-tasks dev-flows", "tasks list": ""}
        unit = "https://dev-batch-expand-1.us-central1.run.app/"
        gcloud.answer(**queues, **{"tasks list --queue=dev-batches": unit})
        refused = cloud.run("signalbox", "deploy", "-p", PROJECT, "--yes")
        assert (refused.returncode, f"would be lost:\n  dev-batches: {unit}\n" in refused.stdout) == (1, True)
        assert "  removes batches: batch_expand, the queue batches\n" in refused.stdout
        assert "dev-batch-expand" in deployed_functions(own_google)
        gcloud.answer(**queues)
        unread = cloud.run(
            "signalbox", "deploy", "-p", PROJECT, "--yes"
        )  # the records are Google's, which is not there
        assert (unread.returncode, "name batches is not known: " in unread.stdout) == (1, True), unread.stdout
        shrunk = cloud.run("signalbox", "deploy", "-p", PROJECT, "--yes", "--unchecked")
        assert shrunk.returncode == 0, shrunk.stdout
        assert deployed_functions(own_google) == {"dev-orders", "dev-sweep"}
        objects = {name for kind, name in own_google.cloud.existing if kind == "google_storage_bucket_object"}
        assert any("catalogue.json" in name for name in objects), "what functions read is there after each deployment"

"""The command `signalbox`: what it refuses, in one sentence that says what to do, and what it prints for programs."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.shell_completion import BashComplete

from signalbox import semaphore
from signalbox.catalogue import project as projects
from signalbox.catalogue.project import Kit
from signalbox.catalogue.reading import load
from signalbox.catalogue.version import VERSION
from signalbox.testing import Harness
from signalbox_tools.cli import function_commands
from signalbox_tools.cli.main import cli, main
from signalbox_tools.deploy import plan_summary
from signalbox_tools.deploy.terraform import Terraform
from signalbox_tools.setup import new_project, own_requirements, upgrade
from signalbox_tools.setup.own_requirements import inputs
from signalbox_tools.terminal_text import counted


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(new_project, "_wheel", lambda: None)  # as from an index
    assert main(["new", "my-shop"]) == 0
    monkeypatch.chdir(tmp_path / "my-shop")
    return tmp_path / "my-shop"


def test_a_new_project_has_all_files(shop: Path) -> None:
    made = {str(path.relative_to(shop)) for path in shop.rglob("*") if path.is_file()} - {"uv.lock"}
    assert made == {
        ".env.example",
        ".gitignore",
        "Makefile",
        "README.md",
        "cloudbuild.yaml",
        "functions/orders/main.py",
        "pyproject.toml",
        "signalbox.yaml",
        "tests/test_orders.py",
    }
    assert not [path for path in shop.rglob("*") if path.is_file() and "@version@" in path.read_text()]


@pytest.mark.parametrize("of_a_clone", [False, True])
def test_git_ignores_the_data_and_the_secrets_of_a_machine(shop: Path, of_a_clone: bool) -> None:
    if of_a_clone:
        shutil.copy(Path(__file__).parents[4] / ".gitignore", shop)
    private = [".data/saved.json", ".env", ".local/x.log" if of_a_clone else ".signalbox/x.log"]
    subprocess.run(["git", "init", "--quiet"], cwd=shop, check=True)
    asked = subprocess.run(["git", "check-ignore", *private], cwd=shop, check=False, capture_output=True, text=True)
    assert asked.stdout.split() == private


def test_the_command_adds_functions(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add", "ink_levels"]) == 0
    assert (shop / "functions" / "ink_levels" / "main.py").is_file()
    assert (shop / "tests" / "test_ink_levels.py").is_file()
    assert main(["package", "ink_levels", "--json"]) == 0
    printed = capsys.readouterr().out
    [zipped] = json.loads(printed[printed.index("[") :])
    assert zipped["name"] == "ink_levels"
    assert (shop / "dist" / "ink_levels.zip").stat().st_size == zipped["size_bytes"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("new", "My_Shop"), "the name must be lower case words and digits joined by single hyphens"),
        (("new", "flask"), "a package has this name .*, and a project must not hide it; choose another"),
        (("new", "other-shop"), "is a project: add a function with `signalbox add orders`"),
        (("add", "documents"), "the kit has a function of this name; choose another"),
        (("add", "yaml"), "the package PyYAML has a module yaml, which your function would hide; choose another"),
        (("package", "nowhere"), "not in the catalogue: nowhere"),
    ],
)
def test_a_wrong_input_is_refused_with_what_to_do(
    shop: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert main(arguments) == 2
    text = capsys.readouterr().err
    assert re.search(said, text), text


def test_in_a_clone_the_wheel_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", str(tmp_path / "my-shop")]) == 2
    assert "this is a clone: run `make wheel`" in capsys.readouterr().err
    assert not (tmp_path / "my-shop").exists()


def test_a_folder_with_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my-shop").mkdir()
    (tmp_path / "my-shop" / "mine.txt").write_text("mine")
    assert main(["new", str(tmp_path / "my-shop")]) == 2
    assert "exists and is not empty: choose another name" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "my-shop").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("command", ["dev", "test", "status", "logs", "console", "doctor", "catalogue", "package"])
def test_outside_of_a_project_every_command_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setattr(projects, "KIT", Kit(projects._PACKAGED))
    monkeypatch.chdir(tmp_path)
    assert main([command]) == 1
    assert "There is no signalbox.yaml in" in (said := capsys.readouterr().err)
    assert "signalbox new my-shop" in said


def test_a_project_that_a_newer_kit_made_is_refused(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = shop / "signalbox.yaml"
    file.write_text(file.read_text().replace(VERSION, "99.0.0"))
    assert main(["package"]) == 1
    assert "this project needs signalbox 99.0.0 or newer, and" in capsys.readouterr().err


def test_without_the_packages_of_a_laptop_a_command_names_the_extra(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(["status"]) == 1
    assert "comes with the extra `tools`: `uv add 'signalbox[tools]'`" in capsys.readouterr().err


WITHOUT_TOOLS = """
import sys
sys.modules.update(dict.fromkeys(("aiohttp", "httpx", "rich", "yaml", "pytest")))
from signalbox_tools.cli.main import main
from signalbox_tools.setup import new_project
from signalbox_tools.setup.own_requirements import inputs
from signalbox_tools.terminal_text import counted
new_project._wheel = lambda: None
sys.exit(main(["new", "my-shop"]) or main(["--help"]))
"""


def test_a_project_is_made_without_the_packages_of_a_laptop(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, projects.KIT.source_paths))}
    subprocess.run([sys.executable, "-c", WITHOUT_TOOLS], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "my-shop" / "signalbox.yaml").is_file()


def test_the_doctor_finds_what_the_cloud_would_refuse(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--json"])
    printed = capsys.readouterr().out
    found = {each["name"]: each for each in json.loads(printed[printed.index("[\n") :])}
    assert found["functions"]["well"] is True
    assert found["catalogue"]["found"] == "1 function of yours: orders"
    (shop / "functions" / "orders" / "main.py").write_text("import pytest\n\norders = None\n")
    assert main(["doctor"]) == 1
    assert "orders: main.py:1 imports pytest" in capsys.readouterr().out


def test_the_doctor_names_what_an_upgrade_has_removed(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "tests" / "test_more.py").write_text(
        "import signalbox.gone\n"
        "from signalbox import Answer, Function, documnts\n"
        "from signalbox.core.problems import Problem, Sorry\n"
        "from signalbox.nowhere import anything\n"
        "from signalbox.testing import Harness\n"
        "from signalbox_other import Answer\n"
    )
    (shop / ".venv").mkdir(exist_ok=True)
    (shop / ".venv" / "other.py").write_text("from signalbox import Answer\n")
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    [line] = [line for line in printed.splitlines() if line.startswith("no  names")]
    names = line.partition("names")[2].strip()
    assert names.endswith(". The changelog says what replaces a removed name")
    assert names.rpartition(". ")[0].split("; ") == [
        "tests/test_more.py:1 imports signalbox.gone, which this kit does not have",
        "tests/test_more.py:2 imports Answer from signalbox, which does not have it",
        "tests/test_more.py:2 imports documnts from signalbox, which does not have it",
        "it has documents",
        "tests/test_more.py:3 imports Sorry from signalbox.core.problems, which does not have it",
        "tests/test_more.py:4 imports signalbox.nowhere, which this kit does not have",
    ]


def test_the_doctor_names_new_indexes_and_summarises_a_saved_plan(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["catalogue"]) == 0
    capsys.readouterr()
    main(["doctor"])
    assert "no new one" in capsys.readouterr().out
    with (shop / "signalbox.yaml").open("a") as file:
        file.write("\nindexes:\n  near: {collection: orders, fields: [a, -b]}\n")
    folder = shop / ".signalbox" / "terraform"
    (folder / "infra").mkdir(parents=True)
    indexes = (projects.KIT.infra / "indexes.tf").read_text()
    (folder / "infra" / "indexes.tf").write_text(indexes.replace('["checked_at", "due_at", "state"]', '["state"]'))
    (folder / "my-project-dev").mkdir()
    (folder / "my-project-dev" / "plan").touch()
    document = {"resource_changes": [{"address": "a.b", "change": {"actions": ["delete"]}}]}
    monkeypatch.setattr(Terraform, "saved", lambda _: plan_summary.read(document))
    main(["doctor"])
    printed = capsys.readouterr().out
    assert "near; flows.checked_at; flows.due_at would be built" in printed
    (shop / "signalbox.yaml").write_text((shop / "signalbox.yaml").read_text().replace("api: []", "api: [semaphores]"))
    built = upgrade.new_indexes(projects.Project.find(), load())
    assert {"semaphores.mode", "rates.sweep_at"} < set(built), "those of a part that is added"
    assert not [name for name in built if name.startswith(("yokes.", "batches."))], "a part that is absent, or known"
    assert "Plan: 0 to create, 0 to change, 0 to replace, 1 to destroy; destroys a.b" in printed


def test_semaphores_and_rates_that_the_catalogue_declares_are_there_in_tests_and_shown(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = shop / "signalbox.yaml"
    file.write_text(f"{file.read_text()}\nsemaphores:\n  printer: {{permits: 2}}\nrates:\n  ai: {{per_minute: 9}}\n")
    assert main(["catalogue"]) == 0
    assert "semaphores:\n  printer:\n    permits: 2\n" in capsys.readouterr().out
    with Harness() as harness:
        assert harness.get("semaphores/printer").json["permits"] == 2
        assert harness.get("rates/ai").json["per_minute"] == 9
        assert harness.get("semaphores/other").status == 404
        semaphore("other").ensure(permits=1)
        assert harness.get("semaphores/other").json["permits"] == 1


def test_a_project_grows_with_its_code(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock, main_py = shop / "signalbox.lock.yaml", shop / "functions" / "orders" / "main.py"

    def shown() -> str:
        assert main(["catalogue"]) == 0
        return capsys.readouterr().out

    def deployed() -> set[str]:
        return set(yaml.safe_load(lock.read_text())["deployments"])

    def line_of(code: str) -> int:
        return main_py.read_text().split(code)[0].count("\n") + 1

    text = shown()
    assert f"#   flows  functions/orders/main.py:{line_of('async def')}\n" in text
    assert deployed() == {"orders", "sweep"}
    main_py.write_text(
        main_py.read_text()
        .replace("import Function", "import Function, semaphore")
        .replace('    print("working', '    semaphore("desk").ensure(permits=1)\n    print("working')
    )
    text = shown()
    assert f"#   semaphores  functions/orders/main.py:{line_of('semaphore(')}\n" in text
    assert "signalbox.lock.yaml has changed: commit it" in text
    assert deployed() == {"orders", "semaphore_admit", "sweep"}


def test_a_new_project_has_the_functions_for_callers_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(new_project, "_wheel", lambda: None)
    assert main(["new", "my-shop", "--api", "documents, batches"]) == 0
    assert {"documents", "batches"} <= set(load(tmp_path / "my-shop" / "signalbox.yaml").functions)
    assert main(["new", "other", "--api", "semaphors"]) == 2
    assert "--api semaphors: the kit has no such part; choose from documents, transforms" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("own", "locked"),
    [(True, ["functions/a"]), (False, ["examples/b", "functions/a", "own/parts/c", "printers"])],
    ids=["a project", "a clone"],
)
def test_the_requirements_of_functions_are_found_where_functions_may_be(
    tmp_path: Path, own: bool, locked: list[str]
) -> None:
    for folder in ("functions", "functions/a", "examples/b", "own/parts/c", "printers", ".venv/d"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "requirements.in").touch()
    found = [str(path.parent.relative_to(tmp_path)) for path in inputs(projects.Project(tmp_path, own=own))]
    assert found == locked


@pytest.mark.parametrize(
    ("own", "program", "started"),
    [(True, "/bin/uv", [sys.executable, "-m", "uv"]), (False, "/bin/uv", ["/bin/uv"]), (False, None, None)],
)
def test_packages_are_locked_by_the_uv_that_is_installed(
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    own: bool,
    program: str | None,
    started: list[str] | None,
) -> None:
    (shop / "functions" / "orders" / "requirements.in").touch()
    ran: list[list[str]] = []
    monkeypatch.setattr(own_requirements, "find_spec", lambda _: own or None)
    monkeypatch.setattr(shutil, "which", lambda _: program)

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert main(["lock"]) == (0 if started else 1)
    assert [list(command[: len(started or ())]) for command in ran] == ([started] if started else [])
    assert ("`signalbox lock` needs uv: https://" in capsys.readouterr().err) == (started is None)


def test_every_command_has_a_help_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert [name for name, command in cli.commands.items() if not command.get_short_help_str(100)] == []


@pytest.mark.parametrize("group", [(), ("flows",), ("documents",), ("data",)])
def test_the_help_lists_each_command_with_its_whole_summary(
    capsys: pytest.CaptureFixture[str], group: tuple[str, ...]
) -> None:
    assert main([*group, "--help"]) == 0
    _, _, commands = capsys.readouterr().out.partition("Commands:")
    assert commands
    assert [line for line in commands.splitlines() if line.endswith("...")] == []


def test_names_of_commands_and_options_are_completed() -> None:
    complete = BashComplete(cli, {}, "signalbox", "_SIGNALBOX_COMPLETE")
    assert [each.value for each in complete.get_completions([], "de")] == ["deploy", "destroy", "dev"]
    assert "--planned" in [each.value for each in complete.get_completions(["deploy"], "--")]


@pytest.mark.parametrize("command", ["deploy", "plan", "smoke", "bootstrap", "rollback", "destroy"])
@pytest.mark.parametrize("project", [(), ("-p", "")])
def test_a_command_of_a_deployment_names_the_project_that_it_lacks(
    capsys: pytest.CaptureFixture[str], command: str, project: tuple[str, ...]
) -> None:
    assert main([command, *project]) == 2
    assert "Missing option '--project' / '-p'." in capsys.readouterr().err


def test_numbers_agree_with_their_nouns() -> None:
    assert [counted(number, "queue") for number in (0, 1, 2, 1_000)] == [
        "0 queues",
        "1 queue",
        "2 queues",
        "1,000 queues",
    ]


def test_a_catalogue_that_is_not_yaml_is_refused_with_the_place(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "signalbox.yaml").write_text("api: []\nfunctions: {orders: {}\n")
    assert main(["catalogue"]) == 1
    said = capsys.readouterr().err
    assert re.match(r"signalbox\.yaml: line 3, column 1: while parsing a flow mapping, ", said), said
    assert said.count("\n") == 1


def test_the_catalogue_is_locked_before_a_reader_of_its_output_has_read_enough(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "the reader has ended")

    monkeypatch.setattr("click.echo", ended)
    with pytest.raises(SystemExit):
        main(["catalogue"])
    assert (shop / "signalbox.lock.yaml").is_file()


def test_a_command_for_a_database_that_no_function_has_names_it(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "signalbox.yaml").write_text("functions: {orders: {database: vault}}\n")
    for environment, said in (
        ("dev.valt", "no function has the database 'valt'; did you mean 'vault'?"),
        ("dev.vault", "No local stack runs here"),
    ):
        assert main(["status", "-e", environment]) == 1
        assert said in capsys.readouterr().err


def test_the_list_of_all_names_is_a_page(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add", "printers"]) == 0
    assert "`signalbox docs names` lists every name of the kit" in capsys.readouterr().out
    for page, title in (("names", "# Pages"), ("docs/README.md", "# Pages"), ("README", "# Signalbox")):
        assert main(["docs", page]) == 0
        assert capsys.readouterr().out.startswith(f"{title}\n")
    assert main(["docs", "protocols"]) == 0


@pytest.mark.parametrize("command", [["--help"], ["docs"], ["catalogue"]])
def test_a_command_whose_output_is_read_no_further_ends_without_a_message(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """As before `| head` after it has ended: nothing reads the pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(sys, "stdout", os.fdopen(writing, "w", buffering=1, encoding="utf-8", closefd=False))
    with pytest.raises(SystemExit):
        main(command)
    monkeypatch.undo()
    os.close(writing)
    assert capfd.readouterr().err == ""


def test_a_closed_pipe_is_not_an_error_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_commands, "_answering", lambda url, _: url)
    with pytest.raises(BrokenPipeError), function_commands.opened("http://127.0.0.1:1", "", "dev", ""):
        raise BrokenPipeError


@pytest.mark.parametrize("count", ["0", "-1"])
def test_logs_prints_at_least_one_line(shop: Path, capsys: pytest.CaptureFixture[str], count: str) -> None:
    assert main(["logs", "-n", count]) == 2
    assert f"{count} is not in the range" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["nan", "-1", "soon"])
def test_a_time_to_wait_that_is_no_time_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flows", "start", "shop", "checkout", "order-1", "--wait", seconds]) == 2
    assert "--wait" in capsys.readouterr().err

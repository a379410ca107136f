"""What runs between a clone and its first test: the set-up script, the Makefile, and the checks of the repository."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from signalbox_tools.setup.tracked_files import complaints, machine_paths

PROJECT = Path(__file__).resolve().parents[2]
SCRIPT = PROJECT / "shared" / "signalbox_tools" / "setup" / "environment.sh"
LINES_OF_A_SCREEN, COLUMNS_OF_A_SCREEN = 24, 100
CANDIDATES = ("python3.13", "python3.12", "python3.11", "python3")


def commands(folder: Path, scripts: dict[str, str]) -> Path:
    """Make a folder for the PATH that holds what the script calls, and the given scripts, and no Python."""
    folder.mkdir()
    for tool in ("sh", "cat", "sed", "mktemp", "rm", "mkdir", "cp", "chmod"):
        source = next(path for part in ("/bin", "/usr/bin") if (path := Path(part) / tool).exists())
        (folder / tool).symlink_to(source)
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def set_up(folder: Path, path: Path, *locks: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(path), "TMPDIR": str(folder)}
    for lock in locks:
        (folder / lock).touch()
    return subprocess.run(
        ["sh", SCRIPT, *locks], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def stand_in(pip: str, uv: str = "exit 1") -> str:
    """Return a stand-in for a recent Python: its environments contain copies of it, and run `pip` and `uv` as given."""
    return f"""
case "$1 $2" in
  "-c "*) exit 0 ;;
  "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && chmod +x "$4/bin/python" ;;
  "-m pip") if [ "$3" = install ]; then shift 3; {pip}; fi ;;
  "-m uv") shift 4; {uv} ;;
esac"""


def test_without_a_recent_python_the_set_up_fails_with_that_reason(tmp_path: Path) -> None:
    path = commands(tmp_path / "commands", dict.fromkeys(CANDIDATES, "exit 1"))
    result = set_up(tmp_path, path)
    assert result.returncode == 1
    assert result.stderr.startswith("Python 3.11 or newer is needed")


def test_a_python_that_cannot_make_environments_is_named_with_the_remedy(tmp_path: Path) -> None:
    bare = 'case "$2" in *ensurepip*) exit 1 ;; esac'
    result = set_up(tmp_path, commands(tmp_path / "commands", {"python3.12": bare}))
    assert result.returncode == 1
    assert result.stderr.startswith("python3.12 cannot make virtual environments")
    assert "apt-get install python3-venv" in result.stderr


def test_a_name_that_leads_nowhere_and_a_bare_python_are_passed_over(tmp_path: Path) -> None:
    bare = 'case "$2" in *ensurepip*) exit 1 ;; esac'
    scripts = {"python3.13": "exit 127", "python3.12": bare, "python3.11": stand_in(":"), "python3": "exit 1"}
    result = set_up(tmp_path, commands(tmp_path / "commands", scripts), "a.txt")
    assert result.returncode == 0
    assert result.stderr == "Setting up .venv (once: about 700 MB of packages, under a minute)\n"
    assert "-m venv" in (tmp_path / ".venv/bin/python").read_text()


def test_every_lock_is_installed_with_hashes_also_under_a_path_with_spaces(tmp_path: Path) -> None:
    folder = tmp_path / "a clone"
    folder.mkdir()
    path = commands(
        tmp_path / "commands", {"python3": stand_in('for argument in "$@"; do echo "$argument"; done >pip.txt')}
    )
    assert set_up(folder, path, "one lock.txt", "two.txt").returncode == 0
    arguments = (folder / "pip.txt").read_text().splitlines()
    assert "--require-hashes" in arguments
    assert arguments[-4:] == ["-r", "one lock.txt", "-r", "two.txt"]


def test_the_output_of_pip_is_shown_only_when_it_fails(tmp_path: Path) -> None:
    quiet = set_up(tmp_path, commands(tmp_path / "good", {"python3": stand_in("echo a harmless warning")}), "a.txt")
    assert "warning" not in quiet.stdout + quiet.stderr
    (tmp_path / ".venv/bin/python").unlink()
    failing = set_up(tmp_path, commands(tmp_path / "bad", {"python3": stand_in("echo hashes differ; exit 3")}), "a.txt")
    assert failing.returncode == 1
    assert "hashes differ" in failing.stderr
    assert "status 3" in failing.stderr


@pytest.mark.parametrize(("uv", "by_pip"), [("exit 0", ["uv"]), ("exit 2", ["uv", "all"])], ids=["works", "fails"])
def test_uv_is_installed_as_locked_and_installs_the_rest_or_else_pip_does(
    tmp_path: Path, uv: str, by_pip: list[str]
) -> None:
    (tmp_path / "a.txt").write_text("tzdata==1 \\\n    --hash=sha256:01\nuv==2 \\\n    --hash=sha256:02\nzipp==3\n")
    pip = 'case "$*" in *"-r a.txt") echo all >>pip.txt ;; *) echo uv >>pip.txt; cat "$5" >uv.txt ;; esac'
    path = commands(tmp_path / "commands", {"python3": stand_in(pip, f'echo "$@" >arguments.txt; {uv}')})
    assert set_up(tmp_path, path, "a.txt").returncode == 0
    assert (tmp_path / "uv.txt").read_text() == "uv==2 \\\n    --hash=sha256:02\n"
    assert (tmp_path / "pip.txt").read_text().split() == by_pip
    assert (tmp_path / "arguments.txt").read_text().endswith("--require-hashes -r a.txt\n")


def test_a_usable_environment_is_kept(tmp_path: Path) -> None:
    path = commands(tmp_path / "commands", {"python3": stand_in(":")})
    set_up(tmp_path, path, "a.txt")
    (tmp_path / ".venv/kept").touch()
    assert set_up(tmp_path, path, "a.txt").stderr == "Bringing .venv up to date with the locks\n"
    assert (tmp_path / ".venv/kept").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "left",
    ["nothing", "a part", *(pytest.param(each, marks=pytest.mark.marathon) for each in ("a name", "half a file"))],
)
def test_an_environment_in_which_an_installation_was_killed_is_made_again(tmp_path: Path, left: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / ".venv"], check=True)
    [packages] = (tmp_path / ".venv/lib").glob("*/site-packages")
    named = packages / "half-1.dist-info"
    if left != "nothing":
        named.mkdir()
    if left in ("a part", "half a file"):
        (named / "METADATA").write_text("Name: half\nVersion: 1\n")
        (named / "RECORD").write_text("half.py,,4\nhalf-1.dist-info/METADATA,,\nhalf-1.dist-info/RECORD,,\n")
    if left == "half a file":
        (packages / "half.py").write_text("a")
    (tmp_path / ".venv/kept").touch()
    assert set_up(tmp_path, Path(f"{Path(sys.executable).parent}:/usr/bin:/bin"), "a.txt").returncode == 0
    assert (tmp_path / ".venv/kept").exists() == (left == "nothing")
    assert not named.exists()


def test_the_environment_has_the_command_signalbox(tmp_path: Path) -> None:
    path = commands(tmp_path / "commands", {"python3": stand_in(":")})
    assert set_up(tmp_path, path).returncode == 0
    (tmp_path / ".venv/bin/python").write_text('#!/bin/sh\nfor each in "$0" "$@"; do echo "$each"; done\n')
    from_elsewhere = {"PATH": f"{tmp_path / '.venv/bin'}:/usr/bin:/bin"}
    printed = subprocess.run(
        ["signalbox", "add", "a b"], cwd="/", env=from_elsewhere, capture_output=True, text=True, check=True
    )
    assert printed.stdout.splitlines() == [f"{tmp_path}/.venv/bin/python", "-m", "signalbox_tools", "add", "a b"]


def test_make_alone_fits_a_screen() -> None:
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # as a person's shell
    made = subprocess.run(["make"], cwd=PROJECT, env=alone, capture_output=True, text=True, check=True)
    listed = made.stdout.splitlines()
    assert len(listed) <= LINES_OF_A_SCREEN
    assert max(map(len, listed)) <= COLUMNS_OF_A_SCREEN


@pytest.mark.parametrize(
    ("target", "name"), [("new", "NAME"), ("simulate", "SEEDS"), ("deploy", "PROJECT"), ("deploy", "REGION")]
)
@pytest.mark.parametrize("value", ['$$({}) "; {}; "', "`{}` '; {}; '", "x\n{}"])
def test_make_runs_nothing_that_a_value_contains(tmp_path: Path, target: str, name: str, value: str) -> None:
    """A value may come from elsewhere: an id that a caller chose, or a name that was copied."""
    given = value.replace("{}", f"touch {tmp_path}/ran")
    options = ["PROJECT=p", f"{name}={given}", "PYTHON_IN_VENV=echo", "--assume-old=.venv/matches-the-locks"]
    said = subprocess.run(["make", target, *options], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert given.replace("$$", "$") in said
    assert not (tmp_path / "ran").exists()


def test_make_takes_no_value_from_a_shells_own_variables() -> None:
    names = ("ARGS", "NAME", "SEEDS", "PROJECT", "ENV", "REGION")
    shell = os.environ | dict.fromkeys(names, "from-the-shell")
    for target in ("simulate", "test", "new", "deploy"):
        dry = ["make", "--dry-run", target]
        said = subprocess.run(dry, cwd=PROJECT, env=shell, capture_output=True, text=True, check=False)
        assert "from-the-shell" not in said.stdout + said.stderr
    assert "Name the project" in said.stderr


def test_make_alone_lists_every_target_with_what_it_does() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = set(re.findall(r"(?m)^([a-z][a-z-]*):", makefile))
    listed = subprocess.run(["make"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"(?m)^  make ([a-z-]+) +\S", listed)) == targets
    known = subprocess.run(["make", "-pn", "help"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"(?m)^\.PHONY: (.*)$", known)
    assert phony is not None
    assert set(phony[1].split()) == targets


def test_the_gate_runs_each_test_once() -> None:
    """The README's command leaves out the slow ones and the folder of the fuzzer, whose tests are all slow."""
    listed = subprocess.run(["make", "-n", "test"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert '--ignore=tests/fuzz -p no:schemathesis -p tests.skips -m "not slow and not marathon"' in listed
    gate = (PROJECT / ".ci" / "run").read_text()
    assert 'make test-all ARGS=\'"\'"\'-m "slow and not marathon"\'"\'"' in gate
    modules = list((PROJECT / "tests" / "fuzz").rglob("test_*.py"))
    assert modules
    assert [path.name for path in modules if "\npytestmark = pytest.mark.slow\n" not in path.read_text()] == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("see /home/" + "ada/notes.txt", "/home/" + "ada"),
        ("x = '/Users/" + "ada/kit'", "/Users/" + "ada"),
        ("/srv/clone of/kit/dist", "/srv/clone of/kit"),
    ],
)
def test_a_machines_path_is_found(line: str, found: str) -> None:
    pattern = machine_paths(Path("/srv/clone of/kit"), Path("/srv/ada"))
    assert list(complaints("a.py", line, pattern)) == [f"a.py:1: names a machine's path: {found}"]


@pytest.mark.parametrize(
    "line",
    [
        "https://example.com/home/x",
        "{base}/Users/1",
        "#!/usr/bin/env python3",
        "a/tmp/b",
        "~/Users/x",
        "/srv/clone of/kitten",
    ],
)
def test_an_address_or_a_relative_path_is_not_a_machines_path(line: str) -> None:
    assert list(complaints("a.py", line, machine_paths(Path("/srv/clone of/kit"), Path("/srv/ada")))) == []


@pytest.mark.parametrize("line", ["--index-url https://x.example/simple", "--find-links wheels", "a @ file:a.whl"])
def test_a_lock_that_names_where_packages_come_from_is_found(line: str) -> None:
    pattern = machine_paths(Path("/"), Path("/"))
    assert list(complaints("functions/requirements.txt", line, pattern)) == [
        f"functions/requirements.txt:1: a lock names where packages come from: {line}"
    ]

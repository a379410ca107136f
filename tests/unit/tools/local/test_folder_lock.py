"""Two local stacks never share a folder, and the lock of a dead one is free."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from signalbox_tools.local.folder.folder_lock import locked
from signalbox_tools.local.stack import Stack, StackError

HOLDER = """
import pathlib, sys, time
from signalbox_tools.local.folder.folder_lock import locked
with locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
ROOT = Path(__file__).parents[4]


def test_a_second_stack_is_refused_and_leaves_the_first_ones_files_alone(tmp_path: Path) -> None:
    database = tmp_path / "events.sqlite"
    database.write_text("the first stack's")
    second = Stack(folder=tmp_path)
    with locked(tmp_path), pytest.raises(StackError, match=rf"process {os.getpid()}\) uses {tmp_path}"), second:
        pass
    assert database.read_text() == "the first stack's"


def test_a_stack_on_a_damaged_file_is_refused_before_it_starts_and_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "store.sqlite").write_bytes(b"no database" * 1_000)
    with pytest.raises(StackError, match=r"store\.sqlite is damaged.*signalbox data clear"):
        Stack(folder=tmp_path / "state", data=data).__enter__()
    assert (data / "store.sqlite").read_bytes() == b"no database" * 1_000


def test_two_stacks_do_not_share_data(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "data"),
        pytest.raises(StackError, match=rf"process {os.getpid()}\) uses {tmp_path / 'data'}"),
    ):
        Stack(folder=tmp_path / "state", data=tmp_path / "data").__enter__()


def test_the_lock_ends_with_the_process_that_holds_it(tmp_path: Path) -> None:
    with subprocess.Popen((sys.executable, "-c", HOLDER, tmp_path), cwd=ROOT, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
    with locked(tmp_path):
        assert (tmp_path / "stack.lock").read_text() == f"{os.getpid()}\n"

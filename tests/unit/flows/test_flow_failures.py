"""The location of an error in a user's code, wherever the clone is."""

import subprocess
import sys
from pathlib import Path

import signalbox

USER = """
import sys
from signalbox.flows.machine.stuck import PACKAGE, failed


def checkout():
    raise KeyError("x")


try:
    checkout()
except KeyError as error:
    print(failed(error).detail)
print(PACKAGE)
"""


def test_a_users_frame_is_found_in_a_clone_under_a_folder_called_shared(tmp_path: Path) -> None:
    clone = tmp_path / "shared" / "signalbox" / "clone"
    (clone / "shared").mkdir(parents=True)
    (clone / "shared" / "signalbox").symlink_to(Path(signalbox.__path__[0]))
    main = clone / "functions" / "shop" / "main.py"
    main.parent.mkdir(parents=True)
    main.write_text(USER)
    environment = {"PYTHONPATH": str(clone / "shared"), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([sys.executable, main], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["KeyError: 'x' (main.py:7 in checkout)", f"{clone}/shared/signalbox/"]

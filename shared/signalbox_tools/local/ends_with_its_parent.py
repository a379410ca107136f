"""Ask Linux to kill this process when the thread that started it ends, then run a command in its place.

    python -I -S ends_with_its_parent.py PARENT_PID COMMAND ARGUMENT…

The request survives ``exec``. A ``preexec_fn`` would avoid this extra program, but it makes `Popen` fork the parent.
The forked copy runs Python and gRPC's fork handlers while locks that other threads held remain locked, so it may hang.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Ask Linux to kill this process when the thread that started it ends. Exit if its parent has already ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(f"the process {parent}, which started this one, has ended")


def main(parent: int, command: list[str]) -> None:
    end_with(parent)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores these signals, and they would stay ignored after exec
    try:
        os.execvp(command[0], command)  # noqa: S606 (a list, no shell)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

"""Run a command that the kernel ends with the thread that has started it (Linux only; see `child_processes`).

    python -I -S ends_with_its_parent.py PARENT_PID COMMAND ARGUMENT…

The request for the signal survives the ``exec``. A ``preexec_fn`` would need no second program, but then the child is a
fork of this process: it runs Python and gRPC's own fork handlers with all locks as they were, and may hang.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the request
        return
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and so would the command
    os.execvp(command[0], command)  # noqa: S606 (a list, no shell)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

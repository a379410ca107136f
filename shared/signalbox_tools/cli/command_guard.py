"""Run a command as part of its own process group, which ends when the process that started it ends.

    python -I -S command_guard.py PIPE COMMAND ARGUMENT…

This program is started as the leader of a new process group, with the signals of `PASSED_ON` blocked. `PIPE` is the
reading end of a pipe. When its other end closes, by whatever death of the process that has it, the whole group gets
SIGTERM, and SIGKILL when the command has ended or `GRACE_SECONDS` have passed. If this program is killed, Linux kills
the command. The exit status is that of the command, or 128 and the number of the signal that ended it.

If the terminal's foreground was the starter's group, this group becomes the foreground, so that the command can read
the terminal and Ctrl-C reaches it. The starter would lose its lease while it is stopped, so Ctrl-Z has no effect.
"""

import os
import signal
import sys
import threading
import time

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
GRACE_SECONDS = 10.0
SIGNALLED = 128
PR_SET_PDEATHSIG = 1


def main(pipe: int, command: list[str]) -> int:
    _take_terminal()
    passed_on = [number for number in PASSED_ON if not is_ignored(number)]
    for number in (*passed_on, signal.SIGTSTP):
        signal.signal(number, _ignore)  # the command receives it: the sender signals the group
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, the system keeps no child's exit status
    child = os.fork()
    if not child:
        _become(pipe, command, passed_on)
    for number in signal.sigpending():
        os.kill(child, number)  # it came before the fork; one that came later too is pending there once
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    is_over = threading.Event()
    threading.Thread(target=_end_with_pipe, args=(pipe, is_over), daemon=True).start()
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            if is_over.is_set():
                os.killpg(0, signal.SIGKILL)  # children that ignore SIGTERM, and this process
            code: int = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else SIGNALLED - code
        if os.WSTOPSIG(status) == signal.SIGTSTP:
            os.killpg(0, signal.SIGCONT)


def is_ignored(number: signal.Signals) -> bool:
    """Return whether the starter wants a signal to have no effect: `nohup`, and a shell's ``&``, ignore some."""
    return signal.getsignal(number) == signal.SIG_IGN


def _ignore(*_: object) -> None:
    """Do nothing. Unlike SIG_IGN, a handler is not inherited by the command."""


def _take_terminal() -> None:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return  # there is no terminal
    try:
        if os.tcgetpgrp(terminal) == os.getpgid(os.getppid()):
            os.tcsetpgrp(terminal, os.getpgrp())
    except OSError:
        pass  # the starter ended, or the terminal was closed
    finally:
        os.close(terminal)


def _become(pipe: int, command: list[str], passed_on: list[signal.Signals]) -> None:
    os.close(pipe)
    for number in (*passed_on, signal.SIGTSTP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU):
        signal.signal(number, signal.SIG_DFL)  # an ignored signal would stay ignored after exec
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    try:
        os.execvp(command[0], command)  # noqa: S606 (the user's own command)
    except OSError as error:
        os.write(2, f"{command[0]} cannot be run: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _end_with_pipe(pipe: int, is_over: threading.Event) -> None:
    os.read(pipe, 1)  # nothing is written: it returns when the other end is closed
    is_over.set()
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

"""Ask for confirmation before a change, and stop without it."""

import sys
from collections.abc import Callable

NOT_AGREED = "Stopped: this was not confirmed, and not done (--yes confirms everything in advance)."

Agree = Callable[[str], str]
"""Returns the answer to a question: a confirmation given in advance, the typed text, or an empty text."""


class Aborted(Exception):
    """Nothing was changed. The message names the reason and the remedy."""


def agreed(agree: Agree, question: str) -> None:
    """Return if the question is answered with yes. Raises `Aborted`."""
    if agree(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise Aborted(NOT_AGREED)


def typed(beforehand: str) -> Agree:
    """Return the function that answers questions: from the advance confirmation or, without one, from the terminal."""

    def answer(question: str) -> str:
        return beforehand if beforehand or not sys.stdin.isatty() else input(question)

    return answer

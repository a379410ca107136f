"""Text of callers, such as a name or an error, as it is printed.

The terminal shows control characters and does not obey them. A terminal takes commands from the text that it prints: an
id that contains one could hide lines, or retitle the window.
"""

import json
import re

HIDDEN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except the tab, ends of lines, changes of the writing direction, and halves of characters."""


def visible(text: str) -> str:
    """Return a line of text with its hidden characters as JSON's escapes. A line of JSON stays valid."""
    return HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def visible_lines(text: str) -> str:
    """Return a text with its hidden characters as JSON's escapes. Its line ends are kept."""
    return "\n".join(map(visible, text.split("\n")))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 queue``, ``2 queues``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

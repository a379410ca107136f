"""The names of this machine in headers. A module without aiohttp, which takes a fifth of the functions' imports."""

import re

HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)


def names_this_machine(host: str) -> bool:
    """Return whether a header `Host` names this machine. A page's host name may also resolve to it (DNS rebinding)."""
    return HOST.fullmatch(host) is not None

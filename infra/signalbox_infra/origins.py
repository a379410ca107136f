"""The origins of `cors` in a function's entry: written as browsers send them, for they are compared as texts."""

import re
from collections.abc import Sequence

ANY = "*"
_HOST = r"([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:]+\])"
_ORIGIN = re.compile(rf"(http://(?!.*:80$)|https://(?!.*:443$)){_HOST}(:[1-9][0-9]{{0,4}})?")


def check_origins(origins: Sequence[str], *, open_to_all: bool) -> None:
    """Raise `ValueError` unless pages of these origins can call a function, which is open to all or private."""
    for origin in origins:
        if origin != ANY and not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"cors names {origin!r}, which is not an origin: write https://app.example.com or "
                "http://localhost:5173, in lower case, without a path, a slash at its end or the ports 80 and 443; "
                "or only '*', for every one"
            )
    if ANY in origins and len(origins) > 1:
        raise ValueError("cors says '*', which is every origin: name no other")
    if origins and not open_to_all:
        raise ValueError(
            "cors is for functions that browsers reach. Cloud Run refuses a browser's preflight to a private function, "
            "since it carries no token: say public: true or auth: firebase as well"
        )

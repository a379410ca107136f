"""The origins whose pages may call a function. They are compared as texts, so they must be as browsers send them."""

import re
from collections.abc import Sequence

ANY_ORIGIN = "*"
_HOST = r"([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:]+\])"
_ORIGIN = re.compile(rf"(http://(?!.*:80$)|https://(?!.*:443$)){_HOST}(:[1-9][0-9]{{0,4}})?")


def check_origins(origins: Sequence[str], *, open_to_all: bool) -> None:
    """Raise `ValueError` unless pages of these origins can call the function.

    A private function is not `open_to_all`.
    """
    for origin in origins:
        if origin != ANY_ORIGIN and not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"cors names {origin!r}, which is not an origin: write https://app.example.com or "
                "http://localhost:5173, in lower case, without a path, a slash at its end or the ports 80 and 443; "
                "or only '*', for every origin"
            )
    if ANY_ORIGIN in origins and len(origins) > 1:
        raise ValueError("cors contains '*', which permits every origin: remove the other origins")
    if origins and not open_to_all:
        raise ValueError(
            "cors is for functions that browsers reach. Cloud Run refuses a browser's preflight to a private function, "
            "since it has no token: add public: true or auth: firebase"
        )

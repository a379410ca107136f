"""Generate the blocking client from the one that is awaited: ``python -m signalbox_tools.setup.blocking_client``.

Names are replaced, as `unasync` does (httpx's transport and psycopg are made in this way). The modules `lease_renewal`
differ in more than names, so each client has its own.
"""

import re
import subprocess
import sys
from pathlib import Path

import signalbox

SOURCE = Path(signalbox.__path__[0]) / "client" / "aio"
TARGET = SOURCE.parent / "blocking"
WRITTEN_BY_HAND = ("__init__.py", "lease_renewal.py")
HEADER = "# Generated from {name} by `make docs`: change that one.\n"

NAMES = {
    "async def": "def",
    "async with": "with",
    "async for": "for",
    "AsyncIterator": "Iterator",
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "asynccontextmanager": "contextmanager",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "aread": "read",
    "aiter_text": "iter_text",
    "client.aio": "client.blocking",
}
PATTERN = re.compile(r"\bawait |" + "|".join(rf"\b{re.escape(name)}\b" for name in NAMES))


def generated() -> dict[Path, str]:
    """Return the text of each generated module, as ruff formats it, by its path."""
    found = {}
    for path in sorted(SOURCE.glob("*.py")):
        if path.name not in WRITTEN_BY_HAND:
            text = PATTERN.sub(lambda match: NAMES.get(match[0], ""), path.read_text("utf-8"))
            name = f"client/aio/{path.name}"
            found[TARGET / path.name] = formatted(HEADER.format(name=name) + text, TARGET / path.name)
    return found


def formatted(text: str, path: Path) -> str:
    for command in (["check", "--fix", "--select=I"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", f"--stdin-filename={path}", "-"]
        ran = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True)  # noqa: S603 (constants)
        text = ran.stdout
    return text


def main() -> None:
    for path, text in generated().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()

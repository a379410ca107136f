"""Records of published functions of Social Code, for tests and benches that need many of them at once."""

from collections.abc import Sequence
from typing import Any


def published(name: str, bodies: Sequence[str], tests: str, imports: Sequence[str] = ()) -> dict[str, Any]:
    """Return the record of a function with an implementation for each body, of which the last is current."""
    marks = "".join(f"# {{{{{each}}}}}\n" for each in imports)
    codes = [f"{marks}def {name}():\n    return {body}" for body in bodies]
    texts = [("tests", tests), *(("code", code) for code in codes)]
    edges = [each.lower() for each in imports]
    return {
        "key": f"social-function~{name.lower()}",
        "type": "SocialFunction",
        "name": name,
        "current": f"{name}-{len(codes) + 1}",
        "code": codes[-1],
        "imports": edges,
        "social_imports": edges,
        "changes": 0,
        "versions": [
            {"id": f"{name}-{at}", "kind": kind, "text": text, "number": at, "author": "ann", "votes": 0, "breaks": []}
            for at, (kind, text) in enumerate(texts, start=1)
        ],
    }

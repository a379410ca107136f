"""`resource`, as users import it from `signalbox`: a function that serves one resource, and nothing else.

class ToDo:
    text: str
    done: bool = False

todos = resource("todos", ToDo)
"""

from collections.abc import Callable
from typing import Any, Unpack

from signalbox.function.user_function import Function
from signalbox.resources.api import Options, add_resource


def resource(name: str, model: type, **options: Unpack[Options]) -> Callable[..., Any]:
    """Return the entry point of a function that serves one resource, and nothing else, at ``{base}NAME``.

    Raises `TypeError` for a model with an unsupported field, and `ValueError` for an invalid name.
    """
    app = Function(name)
    add_resource(app, model, **options)
    return app.entry_point()

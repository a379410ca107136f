"""A to-do list under Backbone: the resource, and the page that shows it.

GET {base}todos/page     the page
GET {base}todos          the list; POST, PUT, PATCH and DELETE as docs/resources.md has them
"""

from pathlib import Path

from signalbox import Function, NotFound, Request, Response, add_resource

FOLDER = Path(__file__).parent
SCRIPTS = {path.name: path.read_bytes() for path in (FOLDER / "vendor").glob("*.js")}
SCRIPTS["todos.js"] = (FOLDER / "todos.js").read_bytes()
PAGE = (FOLDER / "page.html").read_bytes()


class ToDo:
    text: str
    order: int = 0
    done: bool = False


app = Function("todos")


@app.http("GET", "/page")
def page(_: Request) -> Response:
    return Response(200, PAGE, {"Content-Type": "text/html; charset=utf-8"})


@app.http("GET", "/page/{name}")
def script(_: Request, name: str) -> Response:
    if name not in SCRIPTS:
        raise NotFound("The page has no such script.")
    return Response(200, SCRIPTS[name], {"Content-Type": "text/javascript", "Cache-Control": "max-age=300"})


add_resource(app, ToDo)
todos = app.entry_point()

"""The commands for objects, standings and transforms. They use the package's client."""

import sys

import click

from signalbox_tools.cli.command_groups import Group
from signalbox_tools.cli.function_commands import (
    JSON_LINES,
    arguments_of,
    json_of,
    of_a_place,
    opened,
    show,
    show_each,
)

# --- objects ---


@click.group(cls=Group)
def objects() -> None:
    """List objects of a class, call their methods, and delete one."""


@objects.command("ls")
@click.argument("function")
@click.argument("class_name", metavar="CLASS")
@click.option("--prefix", help="Only keys that begin with this text.")
@JSON_LINES
@of_a_place
def list_objects(function: str, class_name: str, prefix: str | None, as_json: bool, **place: str) -> None:
    """List the keys of the objects of a class."""
    with opened(**place) as client:
        show_each(client.objects(function, class_name).list(prefix=prefix), ("key",), as_json=as_json)


@objects.command("show")
@click.argument("function")
@click.argument("class_name", metavar="CLASS")
@click.argument("key")
@of_a_place
def show_object(function: str, class_name: str, key: str, **place: str) -> None:
    """Print whether an object exists, its revision, and how many messages wait for it."""
    with opened(**place) as client:
        show(client.object(function, class_name, key).show())


@objects.command("call")
@click.argument("function")
@click.argument("class_name", metavar="CLASS")
@click.argument("key")
@click.argument("method")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds to wait for the result.")
@of_a_place
def call_object(
    function: str, class_name: str, key: str, method: str, arguments: tuple[str, ...], timeout: float, **place: str
) -> None:
    """Call a method and print its result. A value that is JSON is that JSON, any other one is a text."""
    from signalbox.client import CallFailed

    given = arguments_of(arguments)
    with opened(**place) as client:
        try:
            show(client.object(function, class_name, key).call(method, timeout_seconds=timeout, **given))
        except (CallFailed, TimeoutError) as error:
            raise click.ClickException(str(error)) from error


@objects.command("value")
@click.argument("function")
@click.argument("class_name", metavar="CLASS")
@click.argument("key")
@click.argument("sha256")
@of_a_place
def value_of_object(function: str, class_name: str, key: str, sha256: str, **place: str) -> None:
    """Print the large state of an object as JSON. Its status shows the state by its size and SHA256."""
    with opened(**place) as client:
        show(client.object(function, class_name, key).payload(sha256))


@objects.command("delete")
@click.argument("function")
@click.argument("class_name", metavar="CLASS")
@click.argument("key")
@of_a_place
def delete_object(function: str, class_name: str, key: str, **place: str) -> None:
    """Delete an object in its turn, behind the calls that wait already."""
    with opened(**place) as client:
        client.object(function, class_name, key).delete()


# --- standings ---


@click.group(cls=Group)
def standings() -> None:
    """Show standings and leaderboards, and count one again."""


@standings.command("kinds")
@of_a_place
def list_kinds(**place: str) -> None:
    """Print the declared kinds with their settings."""
    with opened(**place) as client:
        show(client.standings.kinds())


@standings.command("ls")
@click.argument("kind")
@click.option("--order-by", help="A field; -FIELD: the largest first.")
@of_a_place
def list_standings(kind: str, order_by: str | None, **place: str) -> None:
    """Print the standings of a kind as JSON, one a line."""
    with opened(**place) as client:
        show_each(client.standings.list(kind, order_by=order_by), (), as_json=True)


@standings.command("show")
@click.argument("kind")
@click.argument("id")
@of_a_place
def show_standing(kind: str, id: str, **place: str) -> None:
    """Print one standing."""
    with opened(**place) as client:
        show(client.standings.get(kind, id))


@standings.command("recount")
@click.argument("kind")
@click.argument("id")
@of_a_place
def recount_standing(kind: str, id: str, **place: str) -> None:
    """Count one standing again from its relations."""
    with opened(**place) as client:
        client.standings.recount(kind, id)


# --- transforms ---


@click.group(cls=Group)
def transforms() -> None:
    """List, store and delete transforms of fields that have links."""


@transforms.command("ls")
@of_a_place
def list_transforms(**place: str) -> None:
    """Print all transforms as JSON, one a line."""
    with opened(**place) as client:
        show_each(client.transforms.list(), (), as_json=True)


@transforms.command("show")
@click.argument("field")
@of_a_place
def show_transform(field: str, **place: str) -> None:
    """Print the transform of a field."""
    with opened(**place) as client:
        show(client.transforms.get(field))


@transforms.command("put")
@click.argument("field")
@click.argument("transform", required=False)
@of_a_place
def put_transform(field: str, transform: str | None, **place: str) -> None:
    """Store TRANSFORM (JSON) for all fields of this name; without it, standard input."""
    found = json_of(sys.stdin.read() if transform is None else transform)
    with opened(**place) as client:
        show(client.transforms.put(field, found))


@transforms.command("delete")
@click.argument("field")
@of_a_place
def delete_transform(field: str, **place: str) -> None:
    """Delete the transform of a field."""
    with opened(**place) as client:
        client.transforms.delete(field)


GROUPS = (objects, standings, transforms)

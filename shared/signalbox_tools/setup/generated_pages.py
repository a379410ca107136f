"""The tables of pages that are made from the code: calls from openapi.yaml, problems, limits, costs and public names.

`make docs` writes openapi.yaml first, then the types of answers of the client, then the tables between the markers
``<!-- generated: NAME -->`` and ``<!-- end of NAME -->`` of a page. tests/unit/docs/ fails while a page differs from
what the code generates.
"""

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.metadata import PackageMetadata, metadata
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

import yaml

import signalbox
from signalbox.core.problems import Problem
from signalbox_tools.console.actions import ACTIONS
from signalbox_tools.costs.bill import Usage, bill_of, dollars, load_prices, load_rows, money_range, month_of, total
from signalbox_tools.deploy.google_refusals import TABLE as REFUSALS
from signalbox_tools.setup import api_description, client_types
from signalbox_tools.setup.openapi_schemas import alternatives_of, members_of, resolved

PROJECT = Path(__file__).parents[3]
METHODS = ("put", "patch", "get", "delete", "post")
OF_EVERY_CALL = ("401", "403", "405", "414")
"""Refusals that no route describes: those by the platform, and that of a method which the address does not have."""

Json = Mapping[str, Any]


def calls() -> str:
    """Return the table of all calls for people, a row each, in the order of openapi.yaml."""
    api = yaml.safe_load((PROJECT / "openapi.yaml").read_text("utf-8"))
    paths = api["paths"].items()
    rows = [_call(api, path, method, item) for path, item in paths for method in METHODS if method in item]
    return _table(("call", "what it does", "query", "body", "success", "problems"), rows)


def _call(api: Json, path: str, method: str, item: Json) -> tuple[str, ...]:
    call = item[method]
    parameters = [resolved(api, each) for each in (*item.get("parameters", ()), *call.get("parameters", ()))]
    query = (_optional(each["name"], bool(each.get("required"))) for each in parameters if each["in"] == "query")
    good = [status for status in call["responses"] if status < "400"]
    bad = [status for status in call["responses"] if status >= "400" and status not in OF_EVERY_CALL]
    return (
        f"`{method.upper()} {path}`",
        call["summary"],
        ", ".join(f"`{each}`" for each in query),
        _body(api, call),
        ", ".join(good),
        ", ".join(bad),
    )


def _body(api: Json, call: Json) -> str:
    if "requestBody" not in call:
        return ""
    schema = call["requestBody"]["content"]["application/json"]["schema"]
    return " or ".join(dict.fromkeys(_shapes(api, schema)))


def _shapes(api: Json, schema: Json) -> Iterator[str]:
    """Iterate over the alternatives of a body, each as its fields or its JSON type."""
    schema = resolved(api, schema)
    alternatives = alternatives_of(schema)
    for each in alternatives:
        yield from _shapes(api, each)
    if not alternatives:
        properties, required = members_of(api, schema)
        kind = {"array": "an array", "object": "a JSON object"}.get(schema.get("type", ""), "any JSON")
        yield f"`{{{', '.join(_optional(name, name in required) for name in properties)}}}`" if properties else kind


def _optional(name: str, required: bool) -> str:
    return name if required else f"{name}?"


def problem_types() -> str:
    """Return the table of all problems: the last part of `type`, the status, the title."""
    kinds = {kind for module in _modules("problems") for kind in vars(module).values() if _is_problem(kind)}
    return _table(
        ("type", "status", "title"), sorted((f"`{kind.slug()}`", str(kind.status), kind.title) for kind in kinds)
    )


def _is_problem(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Problem) and value is not Problem


def _modules(room: str) -> Iterator[ModuleType]:
    """Iterate over the modules of all subjects that have a room, core first."""
    paths = [path.parent.name for path in Path(signalbox.__file__).parent.glob(f"*/{room}.py")]
    for subject in sorted(set(paths) - {"testing"}, key=lambda name: (name != "core", name)):
        yield import_module(f"signalbox.{subject}.{room}")


def limit_tables() -> str:
    """Return the tables of all limits with their values and reasons, one for each subject."""
    return "\n\n".join(_limits_of(module) for module in _modules("limits"))


def _limits_of(module: ModuleType) -> str:
    classes = [node for node in ast.parse(Path(str(module.__file__)).read_text("utf-8")).body if _is_limits(node)]
    reasons = {name: reason for node in classes for name, reason in _reasons(node)}
    rows = [(f"`{name}`", f"{getattr(module.LIMITS, name):,}", reason) for name, reason in reasons.items()]
    subject = module.__name__.split(".")[1]
    title = "Several subjects" if subject == "core" else subject.replace("_", " ").capitalize()
    return f"## {title}\n\n{_table(('limit', 'value', 'reason'), rows)}"


def _is_limits(node: ast.stmt) -> TypeGuard[ast.ClassDef]:
    return isinstance(node, ast.ClassDef) and node.name.endswith("Limits")


def _reasons(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Iterate over the names of a class of limits, each with the text below it."""
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            yield field.target.id, " ".join(str(text.value).split()) if isinstance(text, ast.Constant) else ""


def cost_tables() -> str:
    """Return the tables of docs/costs.yaml, whose rows the tests of costs assert."""
    head = ("operation", "round trips", "reads", "writes", "deletes", "tasks")
    parts = []
    for part in yaml.safe_load((PROJECT / "docs" / "costs.yaml").read_text("utf-8")):
        rows = [
            (row["operation"], *(str(row.get(name.replace(" ", "_"), 0)) for name in head[1:]))
            for row in part["rows"].values()
        ]
        parts.append(f"## {part['title']}\n\n{_table(head, rows)}")
    return "\n\n".join(parts)


USERS = {
    "1,000,000 waits on semaphores": Usage(pairs=1_000_000),
    "1,000,000 units of batches": Usage(units=1_000_000),
    "1,000,000 units of batches, 20 in a task (`per_task`)": Usage(units=1_000_000, per_task=20),
    "1,000,000 steps of flows": Usage(steps=1_000_000),
    "10,000,000 puts with ten copies elsewhere": Usage(puts=10_000_000, copies=10),
    "the same, if only the kit writes documents": Usage(puts=10_000_000, copies=10, writers="kit"),
    "the nightly verifications of 11,000,000 stored documents, ten of eleven with a copy": Usage(
        documents=11_000_000, copies=10
    ),
}
"""Example users of a month."""

MONTHS = {
    "small: 20,000 steps, 50,000 puts; 500,000 documents, 1 GiB": Usage(
        steps=20_000, puts=50_000, documents=500_000, stored_gib=1
    ),
    "busy: 1,000,000 steps, 500,000 waits, 1,000,000 puts with ten copies; 5,000,000 documents, 10 GiB": Usage(
        steps=1_000_000, pairs=500_000, puts=1_000_000, copies=10, documents=5_000_000, stored_gib=10
    ),
    "large: 20,000,000 steps, 10,000,000 puts with ten copies by the kit only; 50,000,000 documents, 100 GiB": Usage(
        steps=20_000_000, puts=10_000_000, copies=10, writers="kit", documents=50_000_000, stored_gib=100
    ),
}
"""Whole bills of three users, with the idle deployment, stored data and free amounts."""


def bills() -> str:
    """Return the bills of example users, and the price of a million steps elsewhere."""
    prices, rows = load_prices(), load_rows(PROJECT / "docs" / "costs.yaml")
    lines = {name: bill_of(usage, prices, rows)[0] for name, usage in USERS.items()}
    users = [
        (name, f"{line.requests:,.0f}", dollars(line.firestore), money_range(*line.computing), money_range(*line.total))
        for name, line in lines.items()
    ]
    steps = lines["1,000,000 steps of flows"].total
    ours = ("Signalbox", money_range(*steps), "nothing else; an idle deployment costs cents")
    others = [
        (f"[{name}]({each['page']}){_read(each)}", money_range(*map(float, each["million"])), each["also"])
        for name, each in prices["rivals"].items()
    ]
    head = ("a month of", "requests", "Firestore", "computing", "total")
    months = [
        (name, money_range(*total(month_of(usage, prices, rows, free_tier=True))), *_steps_elsewhere(usage, prices))
        for name, usage in MONTHS.items()
    ]
    elsewhere = ("a month", "Signalbox, all of it", *(f"its steps at {name}" for name in prices["rivals"]))
    tables = (
        _table(head, users),
        _table(("a million steps", "cost", "in addition"), [ours, *others]),
        _table(elsewhere, months),
    )
    return "\n\n".join(tables)


DATABASES = {
    "500,000 records, 1 GiB": Usage(documents=500_000, stored_gib=1),
    "5,000,000 records, 10 GiB": Usage(documents=5_000_000, stored_gib=10),
    "50,000,000 records, 100 GiB": Usage(documents=50_000_000, stored_gib=100),
}


def copies() -> str:
    """Return the table of what the copies of example databases cost in a month."""
    head = (
        "database",
        "stored",
        "`backups` of `prod`: 21 copies",
        "point-in-time recovery",
        "an export each day, 7 kept",
    )
    return _table(head, [(name, *map(dollars, _costs_of_copies(usage))) for name, usage in DATABASES.items()])


def _costs_of_copies(usage: Usage) -> Iterator[float]:
    prices, rows = load_prices(), load_rows(PROJECT / "docs" / "costs.yaml")
    without = total(month_of(usage, prices, rows))[0]
    yield without - total(month_of(replace(usage, stored_gib=0), prices, rows))[0]
    for copied in ({"backups": 21}, {"recovery_gib": usage.stored_gib}, {"exports": 30}):
        yield total(month_of(replace(usage, **copied), prices, rows))[0] - without


def _read(rival: Json) -> str:
    """Return when a rival's price was read, if that was not when the others were."""
    return f" ({rival['read']})" if "read" in rival else ""


def _steps_elsewhere(usage: Usage, prices: Json) -> list[str]:
    """Return the price of a user's steps at each rival."""
    millions = usage.steps / 1_000_000
    return [money_range(*(millions * each for each in rival["million"])) for rival in prices["rivals"].values()]


def public_names() -> str:
    """Return the table of the names that users import from `signalbox`, by the page with their sections."""
    public = set(getattr(signalbox, "__all__"))  # noqa: B009  a type checker does not know the name
    rows = []
    for page in sorted((PROJECT / "docs").glob("*.md")):
        text = page.read_text("utf-8")
        names = [name for name in re.findall(r"^### `(\w+)`$", text, re.MULTILINE) if name in public]
        title = text.partition("\n")[0].removeprefix("# ")
        links = ", ".join(f"[`{name}`]({page.name}#{name.lower()})" for name in names)
        rows += [(f"[{title}]({page.name})", links)] if names else []
    return _table(("page", "names"), rows)


def licences() -> str:
    """Return the table of the packages that each function contains, with the licence that each package states."""
    lock = (PROJECT / "functions" / "requirements.txt").read_text("utf-8")
    names = re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)
    return _table(("package", "licence"), [(name, _licence(metadata(name))) for name in names])


def _licence(stated: PackageMetadata) -> str:
    classifiers = [each for each in stated.get_all("Classifier") or [] if each.startswith("License :: OSI")]
    named = [*(stated.get_all("License-Expression") or []), *(each.rpartition(" :: ")[2] for each in classifiers)]
    return str((named or stated.get_all("License") or ["not stated"])[0])


def refusals() -> str:
    """Return the table of Google's refusals: the meaning of each, the waits before another try, or the remedy."""
    rows = [(each.name, each.meaning, ", ".join(f"{wait:g}" for wait in each.waits), each.remedy) for each in REFUSALS]
    return _table(("refusal", "it means", "seconds to wait", "to do otherwise"), rows)


def console_actions() -> str:
    """Return the table of the console's buttons: each one's call and effect."""
    rows = [(each.title, f"`{each.method} {each.path}`", each.effect) for each in ACTIONS.values()]
    return _table(("button", "call", "effect"), rows)


PROTOCOLS = sorted(path.stem for path in (PROJECT / "docs" / "protocols").glob("*.md") if path.stem != "README")
CLAUSE = re.compile(r'^#+ +`?([\w-]+)|<a (?:id|name)="([\w-]+)"', re.MULTILINE)


def clauses(page: str) -> set[str]:
    """Return the first word of each heading of a protocol's page, and each anchor."""
    text = (PROJECT / "docs" / "protocols" / f"{page}.md").read_text("utf-8")
    return {word or anchor for word, anchor in CLAUSE.findall(text)}


def planted_faults(page: str) -> str:
    """Return the table of the planted faults.

    A row has the clause that a fault leaves out, and the places that the fault replaces.
    """
    from tests.simulation.faults.points import kept_in  # loads all of the library
    from tests.simulation.planted import FAULTS

    of_page = clauses(page)
    faults = [fault for world in FAULTS.values() for fault in world if fault.clause in of_page]
    rows = [
        (fault.clause, fault.without, "; ".join(dict.fromkeys(map(kept_in, fault.points))))
        for fault in sorted(faults, key=lambda fault: _by_number(fault.clause))
    ]
    return _table(("clause", "planted fault", "kept in"), list(dict.fromkeys(rows)))


def _by_number(clause: str) -> tuple[str, int]:
    name, _, number = clause.rpartition("-")
    return (name, int(number)) if number.isdigit() else (clause, 0)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


ACCOUNTS_MAX = 100
"""Google's quota of service accounts in a project."""


def environment_sizes() -> str:
    """Return the table of the functions and service accounts of each environment, from the catalogue's lock."""
    infra = PROJECT / "infra"
    lock = yaml.safe_load((infra / "catalogue.lock.yaml").read_text("utf-8"))
    sizes = {}
    for file in sorted((infra / "environments").glob("*.tfvars.json")):
        chosen = json.loads(file.read_text("utf-8"))
        sizes[chosen["environment"]] = size_of(lock, examples=chosen.get("examples", False))
    both = tuple(map(sum, zip(*sizes.values(), strict=True)))
    rows = [(f"`{name}`", *_sized(size)) for name, size in sizes.items()]
    return _table(
        ("environment", "functions", "service accounts", "left of 100"), [*rows, ("both in one project", *_sized(both))]
    )


def size_of(lock: Json, *, examples: bool) -> tuple[int, int]:
    """Return the numbers of functions and accounts: of functions, queues and triggers, of schedules and of builds."""
    rows = [row for row in lock["deployments"].values() if examples or not row["example"]]
    functions = {row["function"] for row in rows}
    events = any(trigger["function"] in functions for trigger in lock["triggers"].values())
    own = [row for row in rows if not row["kit_account"]]
    queues = {queue["account"] for queue in lock["queues"].values()}
    return len(rows), len(own) + (len(own) < len(rows)) + len(queues) + events + 2


def _sized(size: tuple[int, ...]) -> tuple[str, str, str]:
    functions, accounts = size
    return str(functions), str(accounts), str(ACCOUNTS_MAX - accounts)


TABLES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "calls": ("docs/reference/calls.md", calls),
    "problems": ("docs/reference/problems.md", problem_types),
    "refusals": ("infra/README.md", refusals),
    "sizes": ("docs/deployment.md", environment_sizes),
    "limits": ("docs/reference/limits.md", limit_tables),
    "costs": ("docs/reference/costs.md", cost_tables),
    "actions": ("docs/reference/console.md", console_actions),
    "bills": ("docs/costs.md", bills),
    "copies": ("docs/costs.md", copies),
    "licences": ("SECURITY.md", licences),
    "names": ("docs/README.md", public_names),
    **{f"faults of {page}": ("docs/reference/faults.md", partial(planted_faults, page)) for page in PROTOCOLS},
}
"""Each table's page and the function that generates it."""


def page_with(text: str, name: str, table: str) -> str:
    """Return a page's text with the named table replaced. Raises `ValueError` if the page lacks its markers."""
    begin, end = f"<!-- generated: {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no markers for the table {name!r}")
    return pattern.sub(lambda _: f"{begin}\n\n{table}\n\n{end}", text)


def main() -> None:
    api_description.FILE.write_text(api_description.text(), "utf-8")
    sys.stdout.write(f"{api_description.FILE.name}\n")
    client_types.FILE.write_text(client_types.text(yaml.safe_load(api_description.text())), "utf-8")
    sys.stdout.write(f"{client_types.FILE.name}\n")
    for name, (page, make) in TABLES.items():
        path = PROJECT / page
        path.write_text(page_with(path.read_text("utf-8"), name, make()), "utf-8")
        sys.stdout.write(f"{page}: {name}\n")


if __name__ == "__main__":
    main()

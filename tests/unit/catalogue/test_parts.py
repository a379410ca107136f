"""The kit's parts that a project uses: what follows from its code, from `api` and from entries of the catalogue."""

import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import signalbox
from signalbox.catalogue.parts import APIS, FUNCTIONS, OF_QUEUES, PARTS, Use, absent, used
from signalbox.catalogue.project import KIT
from signalbox.catalogue.reading import Catalogue, CatalogueError, load
from signalbox.catalogue.used_in_code import HOMONYMS, INNER, OPEN
from signalbox.core.kit_names import QUEUES_OF_THE_KIT
from signalbox_tools.catalogue_lock import rows_of
from signalbox_tools.packaging.function_checks import check_all
from signalbox_tools.packaging.imported_modules import PackagingError

KITS = yaml.safe_load(KIT.catalogue.read_text("utf-8"))

FLOW = """
from signalbox import Function, flow
{imports}
app = Function("orders")


@app.task
def charge(order: str) -> None:
    {task}


@app.flow
async def checkout(order: str) -> None:
    await charge(order)


orders = app.entry_point()
"""
OF_A_FLOW = {"sweep"}
OF_DOCUMENTS = {"link_fan_out", "link_refresh", "link_verify", "verifications", "sweep"}
USES = [
    ("", "pass", set()),
    ("from signalbox import semaphore", 'semaphore("a").wait(charge.call(order="b"))', {"semaphore_admit"}),
    ("from signalbox import rate", 'rate("a").wait(charge.call(order="b"))', {"semaphore_admit"}),
    ("from signalbox import batch", 'batch("a").populate([])', {"batch_expand"}),
    ("from signalbox import batch", 'batch("a").populate([], semaphore="s")', {"batch_expand", "semaphore_admit"}),
    ("from signalbox import batch", 'batch("a").populate([], **OPTIONS)', {"batch_expand", "semaphore_admit"}),
    ("from signalbox import documents", 'documents.put("a", {})', OF_DOCUMENTS),
    ("from signalbox import documents", "store = [documents]", OF_DOCUMENTS),
    ("import signalbox as kit", 'kit.batch("a").populate([], semaphore="s")', {"batch_expand", "semaphore_admit"}),
    ("from signalbox import yokes", 'yokes("likes").put("a", "b")', {"standing_count", "standing_fold", "standings"}),
]

PASSED_ON = [
    ("from signalbox import semaphore", '{"made": semaphore}["made"]("s")'),
    ("from signalbox import semaphore", 'dict(made=semaphore)["made"]("s")'),
    ("from signalbox import semaphore", '(lambda made=semaphore: made("s"))()'),
    ("from signalbox import semaphore, batch", '(semaphore if charge else batch)("s")'),
    ("", 'flow.lock.__call__("s")'),
    ("", "lock = flow.lock"),
    ("", 'getattr(flow, "lock")("s")'),
    ("", "charge(flow)"),
    ("", 'flow.batch([], **{"semaphore": "s"})'),
    ("from signalbox import batch", 'made = batch("b").populate; made([], semaphore="s")'),
    ("from signalbox import batch", 'batch("b").populate([], **{"rate": "r"})'),
    ("from signalbox import sub_batch", "charge(sub_batch)"),
]


def project(
    root: Path, catalogue: str = "functions:\n  orders: {}\n", imports: str = "", task: str = "pass"
) -> Catalogue:
    """Return the catalogue of a project whose only function has a flow and a task with this code."""
    folder = root / "functions" / "orders"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "main.py").write_text(FLOW.format(imports=imports, task=task))
    (root / "signalbox.yaml").write_text(catalogue)
    return load(root / "signalbox.yaml")


def functions_of(catalogue: Catalogue) -> set[str]:
    return set(catalogue.functions) - {"orders"}


def test_the_table_has_every_entry_of_the_kits_catalogue() -> None:
    own = {name for name, entry in KITS["functions"].items() if "folder" not in entry}
    assert set(FUNCTIONS) == own
    assert set(OF_QUEUES) == set(KITS["queues"])
    for kind in ("triggers", "schedules"):
        for name, entry in KITS[kind].items():
            part = PARTS[FUNCTIONS[entry["function"]]]
            assert name in getattr(part, kind), name
            assert entry["function"] in part.workers


def test_the_table_has_every_collection_whose_indexes_a_deployment_sets() -> None:
    indexes = (KIT.infra / "indexes.tf").read_text("utf-8")
    searched = indexes.partition("  searched = {")[2].partition("\n  }")[0]
    kept = {collection for part in PARTS.values() for collection in part.collections}
    assert kept == {"documents", *re.findall(r"^ +(\w+) += \[", searched, re.MULTILINE)}


def test_a_part_has_the_worker_of_its_queue() -> None:
    for worker, queue in QUEUES_OF_THE_KIT.items():
        part = OF_QUEUES[queue]
        assert worker in used([Use(part, "")]).functions, part


@pytest.mark.parametrize("part", PARTS)
def test_the_queues_to_which_a_parts_functions_must_enqueue_are_deployed_with_it(part: str) -> None:
    found = used([Use(part, "", PARTS[part].api)])
    may = {"sweep": KITS["queues"], "batch_expand": ["admit"], "failures": ["admit"]}  # if there is such a part
    for name in found.functions:
        needed = set(KITS["functions"][name].get("enqueues", ())) - set(may.get(name, ()))
        assert needed <= found.queues, name


@pytest.mark.parametrize(("imports", "task", "more"), USES)
def test_the_parts_follow_from_the_code(tmp_path: Path, imports: str, task: str, more: Iterable[str]) -> None:
    found = project(tmp_path, imports=imports, task=task)
    assert functions_of(found) == OF_A_FLOW | set(more)


def test_a_function_that_only_answers_needs_no_part(tmp_path: Path) -> None:
    folder = tmp_path / "functions" / "orders"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text(
        'from signalbox import Function\napp = Function("orders")\norders = app.entry_point()\n'
    )
    (tmp_path / "signalbox.yaml").write_text("functions: {orders: {}}\n")
    found = load(tmp_path / "signalbox.yaml")
    assert set(found.functions) == {"orders"}
    assert [dict(found.queues), dict(found.schedules), dict(found.triggers)] == [{}, {}, {}]


def test_a_flow_has_the_queues_triggers_and_schedules_that_it_needs_and_no_others(tmp_path: Path) -> None:
    rows = rows_of(project(tmp_path))
    assert sorted(rows["deployments"]) == ["orders", "sweep"]
    assert sorted(rows["queues"]) == ["flows", "tasks"]
    assert (sorted(rows["schedules"]), rows["triggers"]) == (["sweep"], {})
    assert {"flows", "log", "mailbox", "outbox"} < set(rows["collections"])
    assert {"batches", "documents", "objects", "semaphores", "units", "yokes"}.isdisjoint(rows["collections"])
    assert rows["deployments"]["sweep"]["enqueues"] == ["flows", "tasks"]
    assert rows["deployments"]["orders"]["enqueues"] == ["flows", "tasks"]
    assert rows["deployments"]["sweep"]["env"]["SIGNALBOX_PARTS"] == '["flows","sweep","tasks"]'


@pytest.mark.parametrize(
    "entry", ["api: [batches]\nfunctions: {orders: {}}\n", "functions: {orders: {}, printers: {}}\n"]
)
def test_flows_enqueue_batches_if_any_code_or_the_api_uses_batches(tmp_path: Path, entry: str) -> None:
    printers = tmp_path / "functions" / "printers"
    printers.mkdir(parents=True)
    (printers / "main.py").write_text(
        "from signalbox import Function, batch\n\napp = Function('printers')\nshown = batch('b').status()\n"
        "printers = app.entry_point()\n"
    )
    assert "batches" in project(tmp_path, entry).functions["orders"].enqueues


def test_each_part_has_the_line_from_which_it_follows(tmp_path: Path) -> None:
    imports, task = "from signalbox import semaphore", 'semaphore("a").wait(charge.call(order="b"))'
    found = project(tmp_path, "api: [failures]\nfunctions: {orders: {}}\n", imports, task)
    assert dict(found.parts) == {
        "semaphores": "functions/orders/main.py:9",
        "flows": "functions/orders/main.py:13",
        "tasks": "functions/orders/main.py:13",
        "failures": "api",
        "sweep": "flows",
    }


@pytest.mark.parametrize("name", APIS)
def test_the_functions_for_callers_follow_from_api(tmp_path: Path, name: str) -> None:
    found = project(tmp_path, f"api: [{name}]\nfunctions: {{orders: {{}}}}\n")
    assert functions_of(found) >= set(PARTS[name].api)
    people = {each for each in functions_of(found) if "people" in found.functions[each].invoked_by}
    assert people == set(PARTS[name].api) - {"smoke"}


def test_batches_of_callers_may_have_units_that_wait_for_permits(tmp_path: Path) -> None:
    found = project(tmp_path, "api: [batches]\nfunctions: {orders: {}}\n")
    assert functions_of(found) == {
        *OF_A_FLOW,
        "batches",
        "batch_complete",
        "batch_expand",
        "smoke",
        "semaphore_admit",
    }
    assert found.parts["semaphores"] == "api: batches"


def test_all_is_the_kits_whole_catalogue(tmp_path: Path) -> None:
    found, kits = project(tmp_path, "api: all\nfunctions: {orders: {}}\n"), load()
    of_the_kit = {name: each for name, each in kits.functions.items() if kits.is_of_the_kit(each)}
    assert {name: found.functions[name] for name in functions_of(found)} == of_the_kit
    assert found.queues == kits.queues


def test_entries_of_the_catalogue_have_their_parts(tmp_path: Path) -> None:
    base = "functions: {orders: {}}\n"
    semaphores = project(tmp_path, f"{base}semaphores: {{printer: {{permits: 1, lease_seconds: 60}}}}\n")
    assert functions_of(semaphores) == {*OF_A_FLOW, "semaphore_admit", "semaphores"}
    assert semaphores.parts["semaphores"] == "semaphores.printer"
    history = project(tmp_path, f"{base}history: {{contracts: {{prefix: contract-}}}}\n")
    assert functions_of(history) == {*OF_A_FLOW, *OF_DOCUMENTS}
    indexes = project(tmp_path, f"{base}indexes: {{names: {{collection: documents, fields: [a, b]}}}}\n")
    assert functions_of(indexes) == {*OF_A_FLOW, *OF_DOCUMENTS}


def test_the_part_of_scheduled_tasks_has_the_line_of_the_schedule(tmp_path: Path) -> None:
    task = 'pass\n\n\n@app.schedule("0 6 * * *")\n@app.task\ndef count() -> None:\n    pass'
    assert project(tmp_path, task=task).parts["scheduled_tasks"] == "functions/orders/main.py:12"


def test_events_of_documents_and_yokes_that_the_project_handles_have_their_parts(tmp_path: Path) -> None:
    handler = '@app.on_document("{}/{{key}}")\ndef changed(event: object) -> None: ...\n\n\n@app.task\ndef charge'
    for collection, workers in (("documents", OF_DOCUMENTS), ("yokes", {"standing_count"}), ("orders", set[str]())):
        project(tmp_path)
        main = tmp_path / "functions" / "orders" / "main.py"
        main.write_text(main.read_text().replace("@app.task\ndef charge", handler.format(collection), 1))
        found = load(tmp_path / "signalbox.yaml")
        assert functions_of(found) >= workers, collection
        assert ("link_refresh" in found.functions) == (collection == "documents")
        origin = {"documents": "documents", "yokes": "standings"}.get(collection, "")
        assert not origin or found.parts[origin] == "functions/orders/main.py:7"


def test_a_scheduled_task_has_the_function_that_enqueues_it_closed_to_people(tmp_path: Path) -> None:
    schedule = 'schedules: {nightly: {function: orders, task: charge, arguments: {order: a}, cron: "0 1 * * *"}}\n'
    found = project(tmp_path, f"functions: {{orders: {{}}}}\n{schedule}")
    assert functions_of(found) == {*OF_A_FLOW, "tasks"}
    assert found.functions["tasks"].invoked_by == ("schedule",)


def test_documents_that_are_not_verified_need_no_verifications(tmp_path: Path) -> None:
    found = project(tmp_path, "api: [documents]\ndocuments: {verified: false}\nfunctions: {orders: {}}\n")
    assert functions_of(found) == {*OF_A_FLOW, "documents", "link_fan_out", "link_refresh"}
    assert sorted(found.schedules) == ["sweep"]


def test_if_only_the_kit_writes_documents_no_function_handles_their_events(tmp_path: Path) -> None:
    found = project(tmp_path, "api: [documents]\ndocuments: {written_by: kit}\nfunctions: {orders: {}}\n")
    assert functions_of(found) == {*OF_A_FLOW, "documents", *OF_DOCUMENTS} - {"link_fan_out"}
    assert found.triggers == {}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("api: [semaphors]\nfunctions: {orders: {}}\n", r"api names 'semaphors'; did you mean 'semaphores'\?"),
        ("api: [semaphore-wait]\nfunctions: {orders: {}}\n", r"api names 'semaphore-wait', a function of semaphores; "),
        ("api: [all, tasks]\nfunctions: {orders: {}}\n", r"api names all in a list; write  api: all$"),
        ("api: [tasks, tasks]\nfunctions: {orders: {}}\n", r"api names tasks twice$"),
        ("api: yes\nfunctions: {orders: {}}\n", r"api is True; write all, or a list of documents, transforms"),
        (
            "functions: {orders: {}, documents: {memory: 2Gi}}\n",
            r"functions\.documents: .* not deployed .*: add `api: \[documents\]` to the catalogue, or remove",
        ),
        (
            "functions: {orders: {}, link_refresh: {memory: 2Gi}}\n",
            r"functions\.link_refresh: nothing uses documents, the part of this function of the kit, or remove",
        ),
        (
            "functions: {orders: {}}\nqueues: {links: {concurrent_max: 4}}\n",
            r"queues\.links: nothing uses this queue of the kit: remove this entry",
        ),
    ],
)
def test_an_entry_that_would_have_no_effect_is_refused(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(CatalogueError, match=message):
        project(tmp_path, entry)


def test_an_empty_api_names_no_function(tmp_path: Path) -> None:
    assert functions_of(project(tmp_path, "api:\nfunctions: {orders: {}}\n")) == OF_A_FLOW


def test_settings_of_a_worker_that_follows_from_the_code_are_overridden(tmp_path: Path) -> None:
    found = project(tmp_path, "functions: {orders: {}, sweep: {memory: 1Gi}}\nqueues: {flows: {concurrent_max: 4}}\n")
    assert found.functions["sweep"].memory == "1Gi"
    assert (found.queues["flows"].concurrent_max, found.queues["flows"].attempts_max) == (4, -1)


@pytest.mark.parametrize(
    ("imports", "task", "read"),
    [
        ("from signalbox.batches.api import batch", "batch", r"main\.py:3 reads signalbox\.batches\.api"),
        ("from signalbox import *", "batch", r"main\.py:3 reads signalbox\.\*"),
        ("import signalbox", 'getattr(signalbox, "ba" + "tch")', r"main\.py:9 reads signalbox\.\*"),
        ("import importlib", 'importlib.import_module("signalbox")', r"main\.py:9 reads signalbox\.\*"),
        ("from signalbox import batches", 'batches.api.batch("b")', r"main\.py:3 reads signalbox\.batches"),
        ("import signalbox.client", 'signalbox.batches.api.batch("b")', r"main\.py:9 reads signalbox\.batches"),
        ("from signalbox.function import resource_function", "pass", r"main\.py:3 reads signalbox\.function"),
        ("from signalbox.adapters.ports import ports", "pass", r"main\.py:3 reads signalbox\.adapters\.ports"),
        ("import signalbox as kit", 'getattr(kit, "batch")', r"main\.py:9 reads signalbox\.\*"),
        ("import signalbox as kit", 'vars(kit)["batch"]', r"main\.py:9 reads signalbox\.\*"),
        ("import signalbox as kit", 'kit.__dict__["batch"]', r"main\.py:9 reads signalbox\.__dict__"),
        ("import sys", 'sys.modules["signalbox"]', r"main\.py:9 reads signalbox\.\*"),
    ],
)
def test_code_whose_parts_do_not_show_is_refused_when_it_is_packaged(
    tmp_path: Path, imports: str, task: str, read: str
) -> None:
    catalogue = project(tmp_path, imports=imports, task=task)
    with pytest.raises(PackagingError, match=f"{read}.*: import the names that you use from signalbox"):
        check_all(catalogue, KIT.root)


def test_each_package_of_the_kit_is_one_that_functions_may_import_or_may_not() -> None:
    folders = {each.parent.name for each in Path(signalbox.__file__).parent.glob("*/__init__.py")}
    assert folders == OPEN | HOMONYMS | INNER
    assert {name for name in folders if not isinstance(getattr(signalbox, name, signalbox), ModuleType)} == HOMONYMS


@pytest.mark.parametrize(("imports", "task"), PASSED_ON)
def test_a_name_that_is_passed_on_counts_with_all_that_it_can_do(tmp_path: Path, imports: str, task: str) -> None:
    found = project(tmp_path, imports=imports, task=task)
    assert "semaphore_admit" in found.functions
    assert {"admit", "tasks"} <= set(found.functions["orders"].enqueues)


@pytest.mark.parametrize(
    ("helper", "imports", "task"),
    [
        ("from signalbox import semaphore", "from helper import semaphore as sem", 'sem("s")'),
        ("from signalbox import semaphore", "import helper", 'helper.semaphore("s")'),
        ("from signalbox import semaphore", "import helper as other", 'other.semaphore("s")'),
        ("from signalbox import semaphore", "from helper import *", 'semaphore("s")'),
        ("import signalbox as kit", "from helper import kit", 'kit.semaphore("s")'),
        ("from signalbox import flow\nimport main", "from helper import flow as made", 'made.lock("s")'),
        ('def populate(made):\n    made.populate([], rate="r")', "from helper import populate", "populate(1)"),
    ],
)
def test_a_name_counts_that_comes_through_another_file(tmp_path: Path, helper: str, imports: str, task: str) -> None:
    folder = tmp_path / "functions" / "orders"
    folder.mkdir(parents=True)
    (folder / "helper.py").write_text(f"{helper}\n")
    assert {"admit", "tasks"} <= set(project(tmp_path, imports=imports, task=task).functions["orders"].enqueues)


def test_a_call_that_another_file_enqueues_counts(tmp_path: Path) -> None:
    folder = tmp_path / "functions" / "orders"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text(
        'from signalbox import Function\nfrom helper import fire\napp = Function("orders")\n'
        "fire(app)\norders = app.entry_point()\n"
    )
    (folder / "helper.py").write_text("def fire(call):\n    call.enqueue()\n")
    (tmp_path / "signalbox.yaml").write_text("functions: {orders: {}}\n")
    assert load(tmp_path / "signalbox.yaml").functions["orders"].enqueues == ("tasks",)


@pytest.mark.parametrize("filled", ["Lease", "SectionRun"])
def test_a_task_that_runs_under_permits_gives_them_back(tmp_path: Path, filled: str) -> None:
    task = f"pass\n\n\n@app.task\ndef held(given: {filled}) -> None:\n    pass"
    found = project(tmp_path, imports=f"from signalbox import {filled}", task=task)
    assert {"admit", "tasks"} <= set(found.functions["orders"].enqueues)
    assert "semaphore_admit" in found.functions


@pytest.mark.parametrize(
    ("imports", "task", "needed"),
    [
        ("Call, semaphore", 'semaphore("s").wait(Call("printers", "printed", {}))', {"admit", "flows"}),
        ("Call, batch", 'batch("b").populate([Call(function="printers", task="printed")])', {"batches", "flows"}),
        ("Call", 'Call("printers", "printed", {})', {"flows"}),
    ],
)
def test_a_function_whose_tasks_are_a_part_of_anothers_work_enqueues_to_its_queues(
    tmp_path: Path, imports: str, task: str, needed: set[str]
) -> None:
    folder = tmp_path / "functions" / "printers"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text(
        'from signalbox import Function\napp = Function("printers")\n@app.task\ndef printed(): ...\n'
        "printers = app.entry_point()\n"
    )
    both = "functions: {printers: {}, orders: {}}\n"
    found = project(tmp_path, both, imports=f"from signalbox import {imports}", task=task)
    assert set(found.functions["printers"].enqueues) == {*needed, "tasks"}
    assert found.places["functions.printers"]["enqueues"] == "orders/main.py:9"
    assert found.parts["flows"].startswith("functions/orders/main.py:")
    own = project(tmp_path, "functions: {printers: {enqueues: []}, orders: {}}\n", task=task)
    assert own.functions["printers"].enqueues == ()


@pytest.mark.parametrize(
    ("section", "needed"),
    [
        ("api: [semaphores]", {"admit", "tasks"}),
        ("semaphores: {s: {permits: 1}}", {"admit", "tasks"}),
        ("api: [batches]", {"batches", "tasks"}),
        ("api: [documents, tasks]", set()),
    ],
)
def test_a_task_that_callers_may_name_as_a_part_of_their_work_enqueues_to_its_queues(
    tmp_path: Path, section: str, needed: set[str]
) -> None:
    folder = tmp_path / "functions" / "orders"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text(
        'from signalbox import Function\napp = Function("orders")\n@app.task\ndef printed(): ...\n'
        "orders = app.entry_point()\n"
    )
    (tmp_path / "signalbox.yaml").write_text(f"{section}\nfunctions: {{orders: {{}}}}\n")
    assert set(load(tmp_path / "signalbox.yaml").functions["orders"].enqueues) == needed


def test_an_import_for_types_only_uses_no_part(tmp_path: Path) -> None:
    imports = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from signalbox import documents, yokes"
    assert functions_of(project(tmp_path, imports=imports)) == OF_A_FLOW
    assert functions_of(project(tmp_path, imports=imports.replace("if ", "if not "))) > OF_A_FLOW


def test_whoever_misses_a_function_is_told_the_entry_to_add() -> None:
    assert absent("semaphore-wait").endswith("add `api: [semaphores]` to the catalogue")
    assert [absent(name) for name in ("orders", "batch-expand", "smoke")] == ["", "", ""]


def test_without_the_examples_the_repository_has_the_kits_functions_only() -> None:
    whole, kits = load(KIT.catalogue), load(KIT.catalogue, examples=False)
    assert set(kits.functions) == {name for name, each in whole.functions.items() if whole.is_of_the_kit(each)}
    called = {each.function for each in kits.triggers.values()} | {each.function for each in kits.schedules.values()}
    assert called <= set(kits.functions)

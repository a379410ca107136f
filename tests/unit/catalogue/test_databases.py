"""Functions that name a database: a catalogue of their own, with the parts of the kit that they use, and no others."""

import json
import re
import sys
from pathlib import Path

import pytest

from signalbox import Call, Function
from signalbox.adapters import deployed_catalogue, settings
from signalbox.adapters.settings import from_environment
from signalbox.catalogue.parts import absent
from signalbox.catalogue.project import Project
from signalbox.catalogue.reading import Catalogue, CatalogueError, databases_of, load, load_all
from signalbox.core.effects import Effect
from signalbox.core.problems import BadCall
from signalbox.testing import Harness
from signalbox_tools.catalogue_lock import lock, lock_of, rows_of
from signalbox_tools.cli import flow_replay
from signalbox_tools.cli.main import main
from signalbox_tools.deploy import deployment_target
from signalbox_tools.local.services.function_settings import settings_of
from signalbox_tools.setup import new_function
from signalbox_tools.setup.new_function_templates import CannotMake

CODE = """
from signalbox import Function, Request{imports}

app = Function("{name}")


@app.http("POST", "/{route}")
def {route}(request: Request) -> object:
    return {body}


@app.task
def {task}(order: str) -> None:
    {work}


{name} = app.entry_point()
"""
ORDERS: dict[str, str] = {
    "name": "orders",
    "route": "pay",
    "body": 'invoke("cards", "/charge")',
    "task": "ship",
    "work": 'documents.put("shipped", {})',
    "imports": ", documents, invoke",
}
CARDS: dict[str, str] = {
    "name": "cards",
    "route": "charge",
    "body": 'settle.call(order="a").enqueue()',
    "task": "settle",
    "work": 'semaphore("bank").ensure(permits=1)',
    "imports": ", semaphore",
}
ENTRIES = "functions:\n  orders: {}\n  cards: {database: payments}\n"


def project(root: Path, catalogue: str = ENTRIES, *functions: dict[str, str]) -> Path:
    """Write a project of these functions; return its catalogue."""
    for each in functions or (ORDERS, CARDS):
        folder = root / "functions" / each["name"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "main.py").write_text(CODE.format(**each))
    (root / "signalbox.yaml").write_text(catalogue)
    return root / "signalbox.yaml"


@pytest.fixture
def both(tmp_path: Path) -> tuple[Catalogue, Catalogue]:
    file = project(tmp_path)
    return load(file), load(file, database="payments")


def test_each_database_has_its_functions_with_the_parts_that_these_use(both: tuple[Catalogue, Catalogue]) -> None:
    first, payments = both
    assert set(first.functions) == {"orders", "sweep", "link_fan_out", "link_refresh", "link_verify", "verifications"}
    assert set(payments.functions) == {"cards", "sweep", "semaphore_admit"}
    assert (set(first.queues), set(payments.queues)) == ({"links", "tasks"}, {"admit", "tasks"})
    assert (set(first.triggers), set(payments.triggers)) == ({"documents"}, set())


def test_the_databases_of_a_catalogue_are_those_of_its_functions(tmp_path: Path) -> None:
    assert databases_of(project(tmp_path)) == ["payments"]
    assert databases_of(project(tmp_path, "functions:\n  orders: {}\n  cards: {}\n")) == []


def test_only_functions_without_a_database_invoke_those_of_another_one(tmp_path: Path) -> None:
    back = CARDS | {"body": 'invoke("orders", "/pay")', "imports": ", invoke, semaphore"}
    with pytest.raises(CatalogueError, match=r"functions\.cards: invokes: orders has the environment's first database"):
        load(project(tmp_path, ENTRIES, ORDERS, back), database="payments")


@pytest.mark.parametrize(("changed", "called"), [(ORDERS, "cards"), (CARDS, "orders")])
def test_code_that_names_a_task_of_another_database_is_refused_before_it_runs(
    changed: dict[str, str], called: str, tmp_path: Path
) -> None:
    calling = changed | {"work": f'Call("{called}", "work", {{}}).enqueue()', "imports": f"{changed['imports']}, Call"}
    file = project(tmp_path, ENTRIES, calling, CARDS if called == "cards" else ORDERS)
    message = rf"{changed['name']}: main.py:\d+ names a task of {called}, which has another database: .*`invoke`"
    with pytest.raises(CatalogueError, match=message):
        load_all(file)


def test_a_function_that_another_database_invokes_is_open_to_people(tmp_path: Path) -> None:
    entries = "functions:\n  orders: {}\n  cards: {database: payments, invoked_by: [queue]}\n"
    with pytest.raises(CatalogueError, match=r"functions\.cards: orders of another database invokes it"):
        load(project(tmp_path, entries), database="payments")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("  cards: {database: payments}\n  orders: {database: payments}", "leave it out in those of one database"),
        ("  cards: {database: Payments}", "write 2 to 10 lower case letters"),
        ("  cards: {database: paymentsof2026}", "write 2 to 10 lower case letters"),
        ("  cards: {database: 7}", "write 2 to 10 lower case letters"),
        ("  cards: {database: ships}\n  ships_old: {folder: functions/orders}", "ships_old: .* rename one"),
        ("  cards: {database: dev}", "which is the prefix of an environment"),
        ("  cards: {database: kit}", "which names of the kit or of Google contain"),
        ("  cards: {database: default}", "leave it out for the first database"),
        ("  cards: {database: signalbox}", "which names of the kit or of Google contain"),
        (
            """  cards: {database: payments, secrets: {SIGNALBOX_CALLBACK_KEYS: keys}}
  orders: {secrets: {SIGNALBOX_CALLBACK_KEYS: "keys:3"}}""",
            "functions.orders: its key of callbacks, keys, is that of cards, which has another database",
        ),
        ("  cards: {database: orders}", "functions.orders: .* rename one"),
        ("  cards: {database: semaphore}", "semaphores?_[a-z]+: .* rename one"),
        ("  cards: {database: payments}\n  sweep: {database: payments}", "each database has the parts of the kit"),
        ("  cards: {database: payments, isolated: true}", "remove database"),
        (
            "  cards: {database: payments}\nsemaphores:\n  till: {permits: 1, database: cash}",
            "no function has the database",
        ),
        (
            "  cards: {database: payments}\nsemaphores:\n  till: {permits: 1, database: }",
            "semaphores.till: no function has the database None",
        ),
        (
            "  cards: {database: payments}\nschedules:\n  nightly: {function: cards, task: ship, cron: 0 1 * * *}",
            "cards has no task 'ship'",
        ),
    ],
)
def test_what_a_database_cannot_be_is_refused_with_what_to_change(entries: str, message: str, tmp_path: Path) -> None:
    file = project(tmp_path, "functions:\n" + ("" if "  orders:" in entries else "  orders: {}\n") + f"{entries}\n")
    with pytest.raises(CatalogueError, match=message):
        [load(file, database=each) for each in ("", *databases_of(file))]


def test_entries_are_in_the_catalogue_of_the_database_that_they_name_or_whose_function_they_call(
    tmp_path: Path,
) -> None:
    more = """
semaphores:
  till: {permits: 1, database: payments}
  door: {permits: 2}
queues:
  slow:
    {dispatches_per_second: 1, concurrent_max: 1, attempts_max: -1, backoff_min_seconds: 1, backoff_max_seconds: 9,
     doublings_max: 3}
schedules:
  settled: {function: cards, task: settle, arguments: {order: a}, cron: 0 1 * * *}
api: [documents]
"""
    file = project(tmp_path, ENTRIES + more)
    first, payments = load(file), load(file, database="payments")
    assert (set(first.semaphores), set(payments.semaphores)) == ({"door"}, {"till"})
    assert ("slow" in first.queues, "slow" in payments.queues) == (True, False)
    assert ("settled" in first.schedules, "settled" in payments.schedules) == (False, True)
    assert ("documents" in first.functions, "documents" in payments.functions) == (True, False)


def test_callers_use_the_parts_that_api_names_with_the_database(tmp_path: Path) -> None:
    file = project(tmp_path, ENTRIES + "api: [documents, payments.failures, payments.semaphores]\n")
    first, payments = load(file), load(file, database="payments")
    assert ("documents" in first.functions, "failures" in first.functions) == (True, False)
    assert payments.functions["failures"].invoked_by == ("people",)
    assert "semaphore_wait" in payments.functions
    assert "documents" not in payments.functions


@pytest.mark.parametrize(
    ("api", "said"),
    [
        (
            "[paymets.failures]",
            "api names 'paymets.failures': no function has the database 'paymets'; did you mean 'pay",
        ),
        ("[.failures]", "no function has the database ''"),
        ("[payments.failure]", "api names 'failure'; did you mean 'failures'"),
        ("[payments.all]", "api names all in a list"),
    ],
)
def test_a_part_of_a_database_that_is_none_is_refused(api: str, said: str, tmp_path: Path) -> None:
    file = project(tmp_path, f"{ENTRIES}api: {api}\n")
    with pytest.raises(CatalogueError, match=re.escape(said)):
        load_all(file)


def test_a_call_of_an_absent_function_of_the_kit_names_the_database_to_add() -> None:
    assert absent("failures", "payments").endswith("add `api: [payments.failures]` to the catalogue")


def test_settings_of_the_kits_functions_may_be_those_of_another_databases_parts(tmp_path: Path) -> None:
    file = project(tmp_path, ENTRIES + "  semaphore_admit: {memory: 1Gi}\n")
    assert "semaphore_admit" not in load(file).functions
    assert load(file, database="payments").functions["semaphore_admit"].memory == "1Gi"


def test_each_database_has_a_lock_and_one_that_is_left_is_refused(tmp_path: Path) -> None:
    file = project(tmp_path)
    assert lock(file) == [lock_of(file), lock_of(file, "payments")]
    assert lock(file) == []
    assert lock_of(file, "payments").name == "signalbox.payments.lock.yaml"
    project(tmp_path, "functions:\n  orders: {}\n  cards: {}\n")
    with pytest.raises(CatalogueError, match=r"no function has the database payments\. .* `-e ENVIRONMENT\.payments`"):
        lock(file)


def test_the_locks_name_the_callers_of_other_databases_and_the_address_that_they_call(
    both: tuple[Catalogue, Catalogue],
) -> None:
    first, payments = map(rows_of, both)
    assert first["deployments"]["orders"]["env"]["SIGNALBOX_ELSEWHERE"] == '{"cards":"payments-cards"}'
    assert payments["deployments"]["cards"]["invokers_elsewhere"] == ["orders"]
    others = [row for rows in (first, payments) for row in rows["deployments"].values() if row["function"] != "cards"]
    assert [row["invokers_elsewhere"] for row in others if row["invokers_elsewhere"]] == []


def test_a_function_of_another_database_is_invoked_at_its_own_address() -> None:
    chosen = from_environment(
        {
            "SIGNALBOX_ELSEWHERE": '{"cards": "payments-cards"}',
            "SIGNALBOX_FUNCTION_URL": "https://dev-{function}-1.run.app",
            "SIGNALBOX_BASE_URL": "https://api.example.com/",
        }
    )
    assert chosen.invocation_address_of("cards") == "https://dev-payments-cards-1.run.app"
    assert chosen.invocation_address_of("orders") == "https://api.example.com/orders"


# --- no function of one database names a task of the other ---


@pytest.mark.parametrize(
    ("mine", "function", "queue", "task"), [(0, "cards", "tasks", "settle"), (1, "orders", "tasks", "ship")]
)
def test_no_record_of_a_database_becomes_a_task_of_another_one(
    both: tuple[Catalogue, Catalogue], mine: int, function: str, queue: str, task: str
) -> None:
    here, there = both[mine], both[1 - mine]
    effect = Effect("a", queue, function, task, {}, f"/tasks/{task}")
    assert "no function" in deployed_catalogue.undeliverable(settings_of(here), effect)
    assert deployed_catalogue.undeliverable(settings_of(there), effect) == ""


def test_a_call_of_a_task_of_another_database_is_refused_with_what_to_write(
    both: tuple[Catalogue, Catalogue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployed_catalogue, "settings", lambda: settings_of(both[0]))
    with pytest.raises(BadCall, match=r"cards has another database, .* call one of its routes with `invoke`"):
        deployed_catalogue.deployed(Call("cards", "settle", {"order": "a"}, "tasks"))


def test_a_harness_refuses_a_task_of_another_database_as_the_cloud_does(tmp_path: Path) -> None:
    with Harness(project(tmp_path)) as harness:
        harness.add(Function("cards"))
        with pytest.raises(BadCall, match=r"cards has another database, .* call one of its routes with `invoke`"):
            Call("cards", "settle", {"order": "a"}).enqueue()


# --- commands ---

FLOW = """
from signalbox import Function, flow

app = Function("cards")


@app.flow
async def refund() -> None:
    await flow.event("go")


cards = app.entry_point()
"""


def test_schedules_of_all_databases_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    schedules = "schedules:\n  settled: {function: cards, task: settle, arguments: {order: a}, cron: 0 1 * * *}\n"
    project(tmp_path, ENTRIES + schedules)
    monkeypatch.chdir(tmp_path)
    assert main(["schedules", "ls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    [settled] = [line for line in lines if line.startswith("settled  0 1 * * *")]
    assert settled.endswith("  database payments")
    assert [line.endswith("  database payments") for line in lines if line.startswith("sweep  ")] == [False, True]
    assert main(["schedules", "run", "settled", "-e", "live"]) == 1
    assert "settled is a schedule of the database payments: add -e live.payments" in capsys.readouterr().err
    assert main(["schedules", "run", "settled", "-e", "live.payments"]) == 1
    assert "No local stack runs here" in capsys.readouterr().err


def test_runs_of_another_database_are_replayed_with_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment of `check_runs` runs this command: it would never find a run that is not stuck."""
    project(tmp_path)
    (tmp_path / "functions" / "cards" / "main.py").write_text(FLOW)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    with flow_replay.knowing_the_catalogue("dev.payments"):
        assert settings.settings().flow_functions["refund"] == "cards"
    with pytest.raises(LookupError, match=r"cards has another database, and so its runs: add -e live\.payments"):
        flow_replay.flows_of("cards", "live")
    with pytest.raises(LookupError, match="orders has another database, and so its runs: add -e live"):
        flow_replay.flows_of("orders", "live.payments")
    assert set(flow_replay.flows_of("cards", "dev.payments")) == {"refund"}


def test_a_new_function_has_no_name_of_a_database(tmp_path: Path) -> None:
    project(tmp_path)
    with pytest.raises(CannotMake, match="names of the database payments begin with payments-; choose another"):
        new_function.make("payments_old", Project.at(tmp_path))


# --- the deployment ---


def test_a_database_is_a_deployment_with_the_settings_of_its_environment(tmp_path: Path) -> None:
    project(tmp_path)
    folder = tmp_path / "environments"
    folder.mkdir()
    common = {"environment": "prod", "prefix": "shop", "backups": True, "domain": "a.example.com", "domain_only": True}
    (folder / "live.tfvars.json").write_text(json.dumps(common | {"database": "restored", "region": "europe-west1"}))
    live, payments = (deployment_target.read("p", name, root=tmp_path) for name in ("live", "live.payments"))
    assert dict(payments.settings or {}) == {
        "environment": "prod",
        "prefix": "shop-payments",
        "backups": True,
        "region": "europe-west1",
        "database": "signalbox-prod-payments",
        "catalogue_database": "payments",
    }
    assert (live.database, payments.database) == ("restored", "signalbox-prod-payments")
    assert (live.name_prefix, payments.name_prefix) == ("shop-", "shop-payments-")
    assert (set(live.catalogue.functions) & {"cards", "orders"}, payments.service("cards")) == (
        {"orders"},
        "shop-payments-cards",
    )
    assert live.work != payments.work
    assert payments.base_url == "https://europe-west1-p.cloudfunctions.net/shop-payments-"
    assert [each.environment for each in deployment_target.databases_below(live)] == ["live.payments"]
    assert deployment_target.databases_below(payments) == ()
    in_order = deployment_target.in_order(live)
    assert next(in_order) is live
    live.keep("alert_email", "ann@example.com")
    assert next(in_order).setting("alert_email", "") == "ann@example.com", "nobody is asked for it again"
    payments.keep("database", "again")
    assert json.loads((folder / "live.payments.tfvars.json").read_text()) == {"database": "again"}
    assert deployment_target.read("p", "live.payments", root=tmp_path).database == "again"

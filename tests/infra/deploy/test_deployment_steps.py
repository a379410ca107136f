"""What comes after what: agreement before a change, another try for what passes, and a guard before destruction."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest

from signalbox.catalogue import reading as catalogues
from signalbox.core.ports import Put, Query
from signalbox.core.problems import Unavailable
from signalbox.testing.memory_store import MemoryStore
from signalbox_tools.deploy import alert_address, deployment_target, prerequisites, smoke
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.deployment_steps import Deployment, confirmation
from signalbox_tools.deploy.lost_tasks import left_by_callers, refuse_recorded_tasks
from signalbox_tools.deploy.plan_summary import Plan, added_parts, read, removed_parts
from signalbox_tools.deploy.programs import CommandFailed, Outcome
from signalbox_tools.deploy.recorded_tasks import RECORDS_MAX
from signalbox_tools.deploy.waiting_clock import Clock
from tests.infra.deploy import real_gcloud
from tests.infra.deploy.gcloud import ENABLED, PROJECT
from tests.infra.deploy.scripted_programs import CREATES_ONE, Script

NO_WAIT = Clock(sleep=lambda _: None)
DONE = Outcome(0, "Apply complete!")
LAG = Outcome(
    1,
    """Error: Error creating function: googleapi: Error 400: Permission denied while using the Eventarc Service Agent.

  with module.function["link_fan_out"].google_cloudfunctions2_function.function,
  on modules/function/main.tf line 55""",
)
LATE = Outcome(1, "Error: googleapi: Error 400: Service account kit@p does not exist., badRequest")
BUSY = Outcome(1, "Error: Quota exceeded for quota metric 'Per project mutation requests' and limit 'x'")
OTHER = Outcome(1, "Error: Error 400: Invalid value\n\n  with a.b,\n")
EXISTS = Outcome(1, "Error: googleapi: Error 409: Database already exists. Please use another database_id")


@pytest.fixture
def deploy(place: deployment_target.Target) -> Callable[..., tuple[list[str], list[float]]]:
    """Deploy with a script; return the output and the pauses."""

    def act(script: Script, answer: str = "y") -> tuple[list[str], list[float]]:
        said, pauses = list[str](), list[float]()
        deployed = Deployment(
            place,
            said.append,
            lambda question: answer if "[y/N]" in question else "",
            script,
            Clock(sleep=pauses.append),
            base_url="http://x/",
        ).deploy()
        assert deployed
        return said, pauses

    return act


def test_late_rights_are_waited_for_longer_each_time_and_the_reason_is_said(
    deploy: Callable[..., tuple[list[str], list[float]]],
) -> None:
    script = Script(**{"terraform apply": [LAG, LAG, LAG, DONE]})
    said, pauses = deploy(script)
    assert pauses == [120, 180, 300]
    assert (script.count("terraform plan"), script.count("terraform apply")) == (4, 4)
    reason = next(line for line in said if line.startswith("Not yet: "))
    assert "Eventarc's service agent" in reason
    assert 'module.function["link_fan_out"]' in reason
    assert "Trying again in 120 s (try 2 of at most 14)." in said


@pytest.fixture
def checked_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a deployment replay the runs of the shop first."""
    known = catalogues.load(catalogues.CATALOGUE)
    shop = replace(known.functions["shop"], check_runs=True)
    content = replace(known, functions={**known.functions, "shop": shop})
    monkeypatch.setattr(deployment_target.Target, "catalogue", content)


@pytest.mark.usefixtures("checked_runs")
def test_runs_that_would_be_stuck_with_the_new_code_end_a_deployment_before_it_asks(
    place: deployment_target.Target,
) -> None:
    stuck = Outcome(3, "1 of 2 runs would be stuck with this code:\n  checkout/o-1: …\n")
    output = {"base_url": {"value": "https://x/"}}
    script = Script(**{"terraform output": output, sys.executable: stuck})
    deployment = Deployment(
        place, lambda _: None, lambda question: "" if "alerts" in question else pytest.fail("asked"), script, NO_WAIT
    )
    with pytest.raises(Aborted, match=r"checkout/o-1[\s\S]*flow.patched"):
        deployment.deploy()
    [command] = [each for each in script.asked if each.startswith(sys.executable)]
    assert f"flows replay shop --all-running --project {PROJECT} --environment dev" in command
    assert script.count("terraform apply") == 0


@pytest.mark.usefixtures("checked_runs")
def test_runs_that_fit_and_a_first_deployment_do_not_end_it(
    deploy: Callable[..., tuple[list[str], list[float]]],
) -> None:
    output = {"base_url": {"value": "https://x/"}}
    script = Script(**{"terraform output": output, sys.executable: "2 runs would continue with this code."})
    said, _ = deploy(script)
    assert "Replaying the runs of shop with the new code." in said
    first = Script(**{"terraform output": "{}"})
    deploy(first)
    assert not any(each.startswith(sys.executable) for each in first.asked)


@pytest.mark.parametrize(
    ("outcomes", "tries", "hint"),
    [
        ([LAG, LAG, LAG, LAG], 4, "Waiting was tried"),
        ([LAG, LATE, BUSY] * 3 + [BUSY] * 5, 14, "Waiting was tried"),
        ([OTHER], 1, "not among those that are known to pass"),
        ([LAG, EXISTS], 2, '"create_database": false'),
        ([Outcome(1, LAG.text + "\n" + OTHER.text)], 1, "Google said for a.b: Error 400: Invalid value"),
    ],
)
def test_a_refusal_met_four_times_a_fourteenth_apply_and_what_does_not_pass_end_it_with_what_to_do(
    deploy: Callable[..., tuple[list[str], list[float]]], outcomes: list[Outcome], tries: int, hint: str
) -> None:
    script = Script(**{"terraform apply": list(outcomes)})
    with pytest.raises(CommandFailed) as failed:
        deploy(script)
    assert hint in str(failed.value)
    assert "To do: " in str(failed.value)
    assert script.count("terraform apply") == tries


def test_a_plan_is_tried_again_too(deploy: Callable[..., tuple[list[str], list[float]]]) -> None:
    off = Outcome(1, error="Error: Error 403: Cloud Tasks API has not been used in project 1 before or it is disabled.")
    _, pauses = deploy(Script(**{"terraform plan": [off, ""]}))
    assert pauses == [60]


BUCKET = f"gcloud storage buckets describe gs://{PROJECT}-signalbox-state"
SERVICES = f"gcloud services list --enabled --project={PROJECT}"
FIRST_APIS = "cloudresourcemanager.googleapis.com serviceusage.googleapis.com"
NOT_ENABLED = Outcome(1, error="reason: SERVICE_DISABLED")


@pytest.fixture
def fresh() -> Script:
    """Return the answers of a project in which nothing was done, and then what was offered."""
    changes = {BUCKET: [None, "there"], SERVICES: [NOT_ENABLED, ENABLED], "gcloud services enable": ""}
    return Script(**changes)


def test_a_fresh_project_is_one_command_and_five_questions(place: deployment_target.Target, fresh: Script) -> None:
    asked, said = list[str](), list[str]()

    def agree(question: str) -> str:
        asked.append(question)
        return "y"

    assert Deployment(place, said.append, agree, fresh, NO_WAIT, base_url="http://x/").deploy()
    bucket = f"Create the bucket {PROJECT}-signalbox-state for Terraform's states? [y/N] "
    assert asked == ["Enable them? [y/N] ", bucket, "Apply it? [y/N] ", alert_address.QUESTION, "Apply it? [y/N] "]
    [enabled] = [each for each in fresh.asked if each.startswith("gcloud services enable")]
    assert enabled.startswith(f"gcloud services enable {FIRST_APIS} artifactregistry.googleapis.com")
    assert len(enabled.split()) <= prerequisites.APIS_AT_ONCE + len(["gcloud", "services", "enable", "--project"])
    assert (fresh.count("terraform init"), fresh.count("terraform apply")) == (2, 2)


def test_what_was_offered_and_not_wanted_is_not_done(place: deployment_target.Target, fresh: Script) -> None:
    with pytest.raises(Aborted, match="not confirmed"):
        Deployment(place, lambda _: None, lambda _: "n", fresh).deploy()
    assert fresh.count("gcloud services enable") + fresh.count("terraform init") == 0


def test_nothing_is_offered_while_something_else_is_missing(place: deployment_target.Target, fresh: Script) -> None:
    fresh.answers[f"gcloud billing projects describe {PROJECT}"] = '{"billingEnabled": false}'
    with pytest.raises(Aborted, match=r"(?s)Billing is off.*APIs are off"):
        Deployment(place, lambda _: None, lambda _: "y", fresh).deploy()
    assert fresh.count("gcloud services enable") == 0


def test_an_api_that_a_change_of_the_code_needs_is_enabled_before_the_plan_of_its_deployment(
    place: deployment_target.Target,
) -> None:
    before = ENABLED.replace("eventarc.googleapis.com", "")
    script = Script(**{SERVICES: [before, ENABLED], "gcloud services enable": ""})
    asked = list[str]()

    def agree(question: str) -> str:
        asked.append(question)
        return "y"

    assert Deployment(place, lambda _: None, agree, script, NO_WAIT, base_url="http://x/").deploy()
    assert asked[0] == "Enable them? [y/N] "
    enabled, planned = (
        next(at for at, each in enumerate(script.asked) if each.startswith(begin))
        for begin in (f"gcloud services enable eventarc.googleapis.com --project={PROJECT}", "terraform plan")
    )
    assert enabled < planned


def test_a_plan_names_the_apis_that_its_deployment_would_enable(place: deployment_target.Target) -> None:
    script, said = Script(**{SERVICES: ENABLED.replace("eventarc.googleapis.com", "")}), list[str]()
    assert not Deployment(place, said.append, lambda _: "y", script).plan().empty
    assert "APIs are off: eventarc.googleapis.com. `signalbox deploy` enables them." in said
    assert script.count("gcloud services enable") == 0


def test_the_deployment_of_a_saved_plan_enables_the_apis_that_the_plan_named_without_a_question(
    place: deployment_target.Target,
) -> None:
    before = ENABLED.replace("eventarc.googleapis.com", "")
    script = Script(**{SERVICES: [before, before, ENABLED], "gcloud services enable": ""})
    steps = Deployment(place, lambda _: None, lambda _: "", script, NO_WAIT, base_url="http://x/")
    steps.plan()
    assert steps.deploy(saved=True)
    assert script.count(f"gcloud services enable eventarc.googleapis.com --project={PROJECT}") == 1


def test_a_plan_offers_nothing_and_changes_nothing(place: deployment_target.Target, fresh: Script) -> None:
    with pytest.raises(Aborted, match=r"(?s)APIs are off.*signalbox bootstrap"):
        Deployment(place, lambda _: None, lambda _: "y", fresh).plan()
    assert fresh.count("gcloud services enable") == 0


def test_a_half_made_queue_is_kept_and_a_half_made_function_is_replaced(
    deploy: Callable[..., tuple[list[str], list[float]]],
) -> None:
    queue, function = 'google_cloud_tasks_queue.queue["tasks"]', "module.function.google_cloudfunctions2_function.b"
    made = [{"address": queue, "tainted": True}, {"address": "google_storage_bucket.whole"}]
    modules = [{"resources": [{"address": function, "tainted": True}]}]
    state = json.dumps({"values": {"root_module": {"resources": made, "child_modules": modules}}})
    script = Script(**{"terraform show": [state, CREATES_ONE, "{}"], "terraform untaint": ""})
    deploy(script)
    untainted = [asked for asked in script.asked if asked.startswith("terraform untaint")]
    assert [asked.rpartition(" ")[2] for asked in untainted] == [queue]


@pytest.mark.parametrize("answer", ["", "n", "no", "sure"])
def test_nothing_is_applied_without_confirmation(
    deploy: Callable[..., tuple[list[str], list[float]]], answer: str
) -> None:
    script = Script()
    with pytest.raises(Aborted, match="not confirmed"):
        deploy(script, answer)
    assert script.count("terraform apply") == 0


def test_terraform_gets_the_name_of_the_environments_file(place: deployment_target.Target) -> None:
    script = Script()
    Deployment(place, lambda _: None, lambda _: "", script, NO_WAIT).plan()
    [planning] = [each for each in script.asked if each.startswith("terraform plan")]
    assert " -var=environment_name=dev " in f"{planning} "


def test_a_plan_is_applied_only_if_one_was_kept(place: deployment_target.Target) -> None:
    script = Script()
    with pytest.raises(Aborted, match="no saved plan to apply"):
        Deployment(place, lambda _: None, lambda _: "y", script).deploy(saved=True)
    assert script.count("terraform apply") == 0


def test_a_kept_plan_is_applied_without_another_and_without_a_question(place: deployment_target.Target) -> None:
    script = Script(**{"terraform apply": [LAG, DONE]})
    steps = Deployment(place, lambda _: None, lambda _: "", script, NO_WAIT, base_url="http://x/")
    steps.plan()
    assert steps.deploy(saved=True)
    assert (script.count("terraform plan"), script.count("terraform apply")) == (2, 2)


def test_a_plan_that_was_declined_refused_or_of_a_killed_destroy_is_not_applied_later(
    place: deployment_target.Target,
) -> None:
    script = Script(**QUEUES, **{"gcloud tasks list": OLD})
    steps = Deployment(place, lambda _: None, lambda _: "", script, NO_WAIT, base_url="http://x/", database=empty)

    def killed_destroy() -> None:
        replace(steps, agree=lambda _: "dev", run=killed_at_apply).destroy()

    def killed_at_apply(command: Sequence[str], **options: Any) -> Outcome:
        if command[1] == "apply":
            raise KeyboardInterrupt
        return script(command, **options)

    def refused() -> None:
        steps.plan()  # one that would be applied, and one later that would not
        script.answers["terraform show"] = destroys("old")
        steps.plan()

    for goal in (steps.deploy, killed_destroy, refused):
        with pytest.raises((Aborted, KeyboardInterrupt)):
            goal()
        with pytest.raises(Aborted, match="no saved plan to apply"):
            steps.deploy(saved=True)
    assert script.count("terraform apply") == 0


@pytest.mark.parametrize(
    ("purge", "emptied"),
    [("", True), (Outcome(1, error="NOT_FOUND: no queue"), True), (Outcome(1, error="403"), False)],
)
def test_a_destroy_fails_if_a_queue_that_stays_has_tasks(
    place: deployment_target.Target, purge: str | Outcome, emptied: bool
) -> None:
    script = Script(**{"gcloud tasks queues purge dev-tasks": purge})
    said: list[str] = []
    assert Deployment(place, said.append, lambda _: "dev", script, NO_WAIT).destroy() is emptied
    purge_it = "gcloud tasks queues purge dev-tasks --location=us-central1 --project=demo-project"
    assert any(purge_it in line for line in said) is not emptied


def test_a_destroy_empties_a_shard_that_the_catalogue_no_longer_has(place: deployment_target.Target) -> None:
    script = Script(**{"gcloud tasks queues list": "dev-flows-2\nflows-2"})
    assert Deployment(place, list[str]().append, lambda _: "dev", script, NO_WAIT).destroy()
    purged = [each.split()[4] for each in script.asked if each.startswith("gcloud tasks queues purge")]
    assert sorted(purged) == sorted({"dev-flows-2", *map(place.service, place.catalogue.queues)})


@pytest.mark.parametrize(("environment", "words"), [("dev", "dev"), ("prod", f"prod {PROJECT}")])
def test_prod_is_destroyed_for_two_words_only(environment: str, words: str) -> None:
    assert confirmation(deployment_target.read(PROJECT, environment)) == words


@pytest.mark.parametrize("typed", ["", "yes", "prod"])
def test_nothing_is_destroyed_without_its_words(typed: str) -> None:
    script = Script()
    with pytest.raises(Aborted, match=f"type 'prod {PROJECT}'"):
        Deployment(deployment_target.read(PROJECT, "prod"), lambda _: None, lambda _: typed, script).destroy()
    assert script.asked == []


@pytest.mark.parametrize("goal", ["smoke", "plan", "kept plan"])
def test_without_a_login_terraform_is_not_started_and_the_command_is_named(
    place: deployment_target.Target, goal: str
) -> None:
    script = Script(**{"gcloud auth list": None})
    steps = Deployment(place, lambda _: None, lambda _: "y", script)
    commands: dict[str, Callable[[], object]] = {
        "smoke": steps.smoke,
        "plan": steps.plan,
        "kept plan": lambda: steps.deploy(saved=True),
    }
    with pytest.raises(Aborted, match="gcloud auth login"):
        commands[goal]()
    assert script.count("terraform init") == 0


def test_a_smoke_test_of_nothing_fails_with_that_reason(place: deployment_target.Target) -> None:
    with pytest.raises(Aborted, match="Nothing is deployed as dev"):
        Deployment(place, lambda _: None, lambda _: "", Script(**{"terraform output": "{}"})).smoke()


def test_rights_can_be_upgraded_from_every_machine(place: deployment_target.Target) -> None:
    script = Script()
    Deployment(place, lambda _: None, lambda _: "y", script).bootstrap()
    [connected] = [asked for asked in script.asked if asked.startswith("terraform init")]
    assert f"-backend-config=bucket={PROJECT}-signalbox-state -backend-config=prefix=bootstrap" in connected
    assert script.count("gcloud storage buckets create") == 0
    assert script.count("terraform apply") == 1


def test_no_bucket_is_created_without_consent(place: deployment_target.Target) -> None:
    script = Script(**{f"gcloud storage buckets describe gs://{PROJECT}-signalbox-state": None})
    with pytest.raises(Aborted):
        Deployment(place, lambda _: None, lambda _: "", script).bootstrap()
    assert script.count("gcloud storage buckets create") == 0


def test_a_plan_names_what_cannot_be_undone_and_what_is_public() -> None:
    actions = {
        "a.new": ["create"],
        "a.same": ["no-op"],
        "a.moved": ["update"],
        "a.swapped": ["create", "delete"],
        "a.gone": ["delete"],
    }
    document = {
        "resource_changes": [{"address": name, "change": {"actions": each}} for name, each in actions.items()],
        "output_changes": {"x": {"actions": ["no-op"]}},
        "checks": [{"status": "fail", "instances": [{"problems": [{"message": "Anybody may call documents."}]}]}],
    }
    assert str(read(document)).splitlines() == [
        "Warning: Anybody may call documents.",
        "Plan: 1 to create, 1 to change, 1 to replace, 1 to destroy.",
        "  changes   a.moved",
        "  REPLACES  a.swapped",
        "  DESTROYS  a.gone",
    ]
    assert (str(Plan()), Plan(outputs_change=True).empty) == ("No changes.", False)


def created(*names: str) -> list[str]:
    """Return the addresses of functions and queues; the name of a queue begins with ``queue:``."""
    return [
        f'google_cloud_tasks_queue.queue["{name.removeprefix("queue:")}"]'
        if name.startswith("queue:")
        else f'module.function["{name}"].google_cloudfunctions2_function.function'
        for name in names
    ]


def test_a_plan_names_the_parts_that_it_adds_and_the_code_that_they_follow_from() -> None:
    parts = {"batches": "functions/orders/main.py:14", "tasks": "functions/orders/main.py:14", "sweep": "batches"}
    plan = Plan(created=tuple(created("batch_expand", "queue:batches", "orders")))
    assert list(added_parts(plan, parts)) == [
        "  adds batches, from functions/orders/main.py:14: batch_expand, the queue batches"
    ]
    assert list(added_parts(Plan(created=tuple(created("orders"))), parts)) == []


def test_a_plan_names_the_parts_that_it_removes() -> None:
    plan = Plan(destroyed=tuple(created("batch_expand", "queue:batches", "semaphores", "orders")))
    assert list(removed_parts(plan, ["semaphores", "tasks"])) == [
        "  removes functions of semaphores: semaphores",
        "  removes batches: batch_expand, the queue batches",
    ]


@pytest.mark.parametrize(
    ("catalogue", "call"),
    [
        ("functions: {orders: {invoked_by: [people], public: true}}\n", ["http://x/orders"]),
        ("api: [documents]\nfunctions: {orders: {invoked_by: [people]}}\n", ["http://x/orders"]),
        ("api: [documents]\nfunctions: {}\n", ["http://x/documents"]),
        ("functions: {}\n", []),
    ],
)
def test_the_first_call_is_one_of_a_function_that_is_deployed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalogue: str, call: list[str]
) -> None:
    (tmp_path / "signalbox.yaml").write_text(catalogue)
    (tmp_path / "functions" / "orders").mkdir(parents=True)
    (tmp_path / "functions" / "orders" / "main.py").write_text("def orders(request): ...\n")
    monkeypatch.setattr(smoke, "passes", lambda *_: True)
    said: list[str] = []
    project = deployment_target.read(PROJECT, "dev", root=tmp_path)
    assert Deployment(project, said.append, lambda _: "y", Script(), NO_WAIT, base_url="http://x/").smoke()
    [works] = [each for each in said if each.startswith("Everything works.")]
    assert re.findall(r'"(http://[^"]+)"', works) == call
    assert ("Bearer" in works) == bool(call and "public" not in catalogue), "code of an open function would have it"


def now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def empty(*_: object) -> MemoryStore:
    """Return a database without records."""
    return MemoryStore(now)


def destroys(*functions: str) -> str:
    """Return the JSON of a plan that destroys functions."""
    addresses = [f'module.function["{name}"].google_cloudfunctions2_function.function' for name in functions]
    places = [{"name": f"dev-{name.replace('_', '-')}", "location": "us-central1"} for name in functions]
    changes: list[dict[str, object]] = [{"actions": ["delete"], "before": place} for place in places]
    return planned(dict(zip(addresses, changes, strict=True)))


def planned(changes: dict[str, dict[str, object]]) -> str:
    """Return the JSON of a plan with these changes, by address."""
    return json.dumps({"resource_changes": [{"address": name, "change": each} for name, each in changes.items()]})


QUEUES = {"gcloud tasks queues list": "dev-tasks dev-flows another"}
OLD = "https://dev-quilt-tasks-123.us-central1.run.app/tasks/paint"


@pytest.mark.parametrize("goal", ["deploy", "plan", "saved"])
def test_no_function_is_destroyed_while_tasks_wait_for_it(place: deployment_target.Target, goal: str) -> None:
    script = Script(
        **{"terraform show": destroys("quilt_tasks", "old")}, **QUEUES, **{"gcloud tasks list --queue=dev-tasks": OLD}
    )
    script.answers["gcloud tasks list --queue=dev-flows"] = ""
    flow = Deployment(place, lambda _: None, lambda _: "y", script, NO_WAIT, "http://x/", database=empty)
    if goal == "saved":
        script.answers["terraform show"] = CREATES_ONE
        flow.plan()
        script.answers["terraform show"] = destroys("quilt_tasks", "old")
    with pytest.raises(
        Aborted, match=r"(?s)would be lost:\n  dev-tasks: https://dev-quilt-tasks-123.*gcloud tasks list"
    ):
        flow.plan() if goal == "plan" else flow.deploy(saved=goal == "saved")
    assert script.count("terraform apply") == 0
    listed = [each for each in script.asked if each.startswith("gcloud tasks list")]
    assert len(listed) == 2, "one call for each queue of the environment"
    [expression] = re.findall(r"--filter=(\S+)", listed[0])
    others = ["https://dev-old-9.us-central1.run.app/turns", "https://dev-quilt-123.us-central1.run.app/tasks/paint"]
    tasks = [{"httpRequest": {"url": url}} for url in (OLD, *others)]
    assert real_gcloud.selects(expression, tasks) == [True, True, False]


def test_a_function_that_no_task_waits_for_is_destroyed(place: deployment_target.Target) -> None:
    script = Script(**{"terraform show": destroys("old")}, **QUEUES, **{"gcloud tasks list": ["", ""]})
    said: list[str] = []
    assert Deployment(place, said.append, lambda _: "y", script, NO_WAIT, "http://x/", database=empty).deploy()
    assert [line for line in said if "not known" in line] == []
    assert script.count("terraform apply") == 1


UNREAD = "whether tasks wait for dev-old in the queue dev-flows is not known: refused"


@pytest.mark.parametrize("goal", ["deploy", "saved", "adopt"])
def test_a_function_is_not_removed_if_a_queue_cannot_be_read_unless_the_person_says_that_nothing_waits(
    place: deployment_target.Target, goal: str
) -> None:
    def steps(*, unchecked: bool) -> Deployment:
        own = Deployment(place, said.append, lambda _: "y", script, NO_WAIT, "http://x/", database=empty)
        return replace(own, unchecked=unchecked)

    def run(*, unchecked: bool) -> bool:
        script.answers["gcloud tasks list"] = [Outcome(1, error="refused"), Outcome(0, "")]
        own = steps(unchecked=unchecked)
        return own.adopt() if goal == "adopt" else own.deploy(saved=goal == "saved")

    said: list[str] = []
    script = Script(**{"terraform show": destroys("old")}, **QUEUES, **{"gcloud tasks list": [None, ""]})
    steps(unchecked=False).plan()
    assert [line for line in said if "not known" in line] == [f"Warning: {UNREAD}"], "a plan changes nothing"
    with pytest.raises(Aborted, match=UNREAD) as stopped:
        run(unchecked=False)
    assert f"signalbox deploy -p {PROJECT} -e dev --region us-central1 --unchecked" in str(stopped.value)
    assert script.count("terraform apply") == 0
    said.clear()
    assert run(unchecked=True)
    assert [line for line in said if "not known" in line] == [f"Warning: {UNREAD}"]
    assert script.count("terraform apply") == 1


def test_the_queues_are_not_read_for_a_plan_that_destroys_no_function(place: deployment_target.Target) -> None:
    script = Script(**QUEUES)
    assert Deployment(place, lambda _: None, lambda _: "y", script, NO_WAIT, base_url="http://x/").deploy()
    assert script.count("gcloud tasks list") == 0


class Unreachable(MemoryStore):
    """A database that does not answer."""

    def query(self, _: Query) -> NoReturn:
        raise Unavailable("no answer")


def with_waiters(count: int) -> MemoryStore:
    """Return a database in which tasks of the function `old` wait for a semaphore."""
    store = MemoryStore(now)
    waiter = {"state": "waiting", "since": 1, "continuation": {"function": "old", "task": "use"}}
    waiters = [Put(f"semaphores/s/waiters/{n}", waiter) for n in range(count)]
    store.commit([Put("semaphores/s", {"mode": "closed"}), *waiters])
    return store


@pytest.mark.parametrize("goal", ["deploy", "plan", "adopt"])
def test_no_function_is_removed_while_records_have_tasks_for_it(place: deployment_target.Target, goal: str) -> None:
    script = Script(**{"terraform show": destroys("old")}, **QUEUES, **{"gcloud tasks list": ""})
    steps = Deployment(
        place, lambda _: None, lambda _: "y", script, NO_WAIT, "http://x/", database=lambda *_: with_waiters(5)
    )
    with pytest.raises(
        Aborted, match=r"functions that this plan removes \(old\).*\n  semaphores/s: 5 records that wait"
    ):
        getattr(steps, goal)()
    assert script.count("terraform apply") == 0


def test_no_part_of_the_kit_is_removed_while_records_need_it(tmp_path: Path) -> None:
    folder = tmp_path / "functions" / "orders"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text("orders = print\n")
    (tmp_path / "signalbox.yaml").write_text("functions: {orders: {invoked_by: [people]}}\n")
    project = deployment_target.read(PROJECT, "dev", root=tmp_path)
    gone = planned(
        {
            name: {"actions": ["delete"], "before": {"name": "x", "location": "us-central1"}}
            for name in created("semaphore_admit", "queue:admit")
        }
    )
    plan = read(json.loads(gone))
    with pytest.raises(
        Aborted,
        match=r"need parts of the kit that this plan removes \(semaphores\):\n  semaphores/s: 5 records that wait",
    ):
        refuse_recorded_tasks(project, plan, lambda: with_waiters(5))
    assert refuse_recorded_tasks(project, plan, empty) == []
    (tmp_path / "signalbox.yaml").write_text("api: [semaphores]\nfunctions: {orders: {invoked_by: [people]}}\n")
    assert refuse_recorded_tasks(project, plan, lambda: with_waiters(5)) == [], "the catalogue has the part"


def test_a_plan_counts_the_records_that_callers_can_no_longer_change() -> None:
    store = empty()
    states = {"a": "open", "b": "sealed", "c": "completed"}
    batches = [Put(f"batches/{name}", {"state": state}) for name, state in states.items()]
    store.commit([*batches, Put("failures/x", {"function": "shop"})])

    def warned(*functions: str) -> list[str]:
        return left_by_callers(read(json.loads(destroys(*functions))), lambda: store)

    assert [line.partition(".")[0] for line in warned("batches", "batch_complete", "failures")] == [
        "Warning: batches: 2 records open or sealed, which callers can no longer load, seal, complete or cancel",
        "Warning: failures: 1 record that can no longer be retried or deleted",
    ]
    assert warned("documents") == []


def test_the_part_of_a_function_that_goes_alone_leaves_its_records_to_the_other(
    place: deployment_target.Target,
) -> None:
    part = 'module.function["old_tasks"].google_cloudfunctions2_function.function'
    whole = 'module.function["old"].google_cloudfunctions2_function.function'
    at = {"name": "dev-old-tasks", "location": "us-central1"}
    changes: dict[str, dict[str, object]] = {part: {"actions": ["delete"], "before": at}, whole: {"actions": ["no-op"]}}
    script = Script(**{"terraform show": planned(changes)}, **QUEUES, **{"gcloud tasks list": ""})
    assert Deployment(
        place, lambda _: None, lambda _: "y", script, NO_WAIT, "http://x/", database=lambda *_: with_waiters(5)
    ).deploy()


def with_long_outbox() -> MemoryStore:
    """Return a database with more outbox records than are read, none of which names the function `old`."""
    store = MemoryStore(now)
    for first in range(0, RECORDS_MAX, 500):
        store.commit([Put(f"outbox/{first + n:05}", {"tasks": []}) for n in range(500)])
    return store


@pytest.mark.parametrize(
    ("database", "reason"),
    [
        (lambda *_: Unreachable(now), "no answer"),
        (lambda *_: with_long_outbox(), f"outbox has more than {RECORDS_MAX} records to look at"),
    ],
)
def test_a_function_is_not_removed_if_not_all_records_can_be_read_unless_the_person_says_that_nothing_waits(
    place: deployment_target.Target, database: Callable[..., MemoryStore], reason: str
) -> None:
    script = Script(**{"terraform show": destroys("old")}, **QUEUES, **{"gcloud tasks list": ""})
    said: list[str] = []
    steps = Deployment(place, said.append, lambda _: "y", script, NO_WAIT, "http://x/", database=database)
    line = f"whether records of the database signalbox-dev name old is not known: {reason}"
    with pytest.raises(Aborted, match=line):
        steps.deploy()
    assert script.count("terraform apply") == 0
    assert replace(steps, unchecked=True).deploy()
    assert f"Warning: {line}" in said


SHOP = 'module.function["shop"].google_cloudfunctions2_function.function'


def moved(name: str, *actions: str) -> dict[str, object]:
    """Return the change of a resource that is replaced by one in another region."""
    before, after = ({"name": name, "location": region} for region in ("europe-west1", "us-central1"))
    return {"actions": actions, "before": before, "after": after}


def test_a_function_or_a_queue_that_is_replaced_elsewhere_counts_as_lost_with_its_tasks(
    place: deployment_target.Target,
) -> None:
    queue = 'google_cloud_tasks_queue.queue["tasks"]'
    changes = {queue: moved("dev-tasks", "delete", "create"), SHOP: moved("dev-shop", "create", "delete")}
    script = Script(**{"terraform show": planned(changes)}, **QUEUES, **{"gcloud tasks list": ""})
    script.answers["gcloud tasks list --queue=dev-tasks"] = OLD
    with pytest.raises(Aborted, match=r"(?s)would be lost:\n  dev-tasks: .*--location=europe-west1"):
        Deployment(place, lambda _: None, lambda _: "y", script, NO_WAIT, base_url="http://x/").deploy()
    listed = [each for each in script.asked if each.startswith("gcloud tasks list")]
    assert "--queue=dev-flows --location=europe-west1" in listed[0], "where the functions are"
    assert "dev-shop)-[0-9]+" in listed[0]
    assert "--filter" not in listed[1], "every task of a lost queue is lost"


def test_an_account_of_queues_is_not_destroyed_while_a_task_carries_it(place: deployment_target.Target) -> None:
    """The queue continues with another account, and the tasks that it has could not be delivered."""
    old = "qu-dev-flows@my-project.iam.gserviceaccount.com"
    change: dict[str, object] = {"actions": ["delete"], "before": {"account_id": "qu-dev-flows", "email": old}}
    changes = {'google_service_account.queue["flows"]': change}
    script = Script(**{"terraform show": planned(changes)}, **QUEUES, **{"gcloud tasks list": ""})
    script.answers["gcloud tasks list --queue=dev-flows"] = OLD
    with pytest.raises(
        Aborted, match=r"(?s)with accounts that this plan destroys.*lost:\n  dev-flows: https://dev-quilt"
    ):
        Deployment(place, lambda _: None, lambda _: "y", script, NO_WAIT, base_url="http://x/").deploy()
    listed = [each for each in script.asked if each.startswith("gcloud tasks list")]
    assert len(listed) == 2, "one call for each queue of the environment"
    [expression] = re.findall(r"--filter=(\S+)", listed[0])
    tasks = [{"httpRequest": {"oidcToken": {"serviceAccountEmail": each}}} for each in (old, f"another-{old}")]
    assert real_gcloud.selects(expression, tasks) == [True, False]
    assert script.count("terraform apply") == 0


def test_a_function_that_is_replaced_under_its_own_address_keeps_its_tasks(place: deployment_target.Target) -> None:
    same = {"name": "dev-shop", "location": "us-central1"}
    change: dict[str, object] = {"actions": ["delete", "create"], "before": same, "after": same}
    script = Script(**{"terraform show": planned({SHOP: change}), "gcloud run services list": "[]"}, **QUEUES)
    assert Deployment(place, lambda _: None, lambda _: "y", script, NO_WAIT, base_url="http://x/").deploy()
    assert script.count("gcloud tasks list") == 0


def test_queues_that_cannot_be_listed_are_asked_one_by_one_and_named(place: deployment_target.Target) -> None:
    script = Script(**{"terraform show": destroys("old"), "gcloud tasks queues list": None, "gcloud tasks list": None})
    said: list[str] = []
    Deployment(place, said.append, lambda _: "y", script, NO_WAIT, "http://x/", database=empty).plan()
    unknown = [line for line in said if line.startswith("Warning: whether tasks wait for dev-old in the queue dev-")]
    assert len(unknown) == len(place.catalogue.queues)


DATABASE = 'google_firestore_database.database["signalbox-dev"]'


@pytest.mark.parametrize(
    ("actions", "policy", "how"),
    [
        (["delete"], "DELETE", "deletes"),
        (["delete", "create"], "DELETE", "replaces"),
        (["create", "delete"], "ABANDON", "replaces"),
    ],
)
@pytest.mark.parametrize("goal", ["deploy", "plan", "adopt"])
def test_a_plan_that_deletes_or_replaces_a_database_is_refused_whatever_is_confirmed(
    place: deployment_target.Target, actions: list[str], policy: str, how: str, goal: str
) -> None:
    before = {"name": "signalbox-dev", "deletion_policy": policy}
    script = Script(**{"terraform show": planned({DATABASE: {"actions": actions, "before": before}})})
    steps = Deployment(place, lambda _: None, lambda _: "yes", script, NO_WAIT, base_url="http://x/")
    with pytest.raises(Aborted, match=f"This plan {how} the database signalbox-dev, with all its data"):
        getattr(steps, goal)()
    assert script.count("terraform apply") == 0


PROTECTED = {
    "name": "signalbox-prod",
    "delete_protection_state": "DELETE_PROTECTION_ENABLED",
    "point_in_time_recovery_enablement": "POINT_IN_TIME_RECOVERY_ENABLED",
}
BARE = {name: value.replace("ENABLED", "DISABLED") for name, value in PROTECTED.items()}
RECOVERED = PROTECTED | {"delete_protection_state": "DELETE_PROTECTION_DISABLED"}


@pytest.mark.parametrize(
    ("before", "after", "lost", "flags"),
    [
        (
            PROTECTED,
            BARE,
            "the protection against deletion and point-in-time recovery",
            "--no-delete-protection --no-enable-pitr",
        ),
        (RECOVERED, BARE, "point-in-time recovery", "--no-enable-pitr"),
        (PROTECTED, RECOVERED, "the protection against deletion", "--no-delete-protection"),
    ],
)
@pytest.mark.parametrize("goal", ["deploy", "plan", "adopt"])
def test_a_plan_that_takes_a_protection_off_the_database_is_refused_with_what_to_write(
    place: deployment_target.Target, before: dict[str, str], after: dict[str, str], lost: str, flags: str, goal: str
) -> None:
    """The environment's file of prod was changed to dev, and names the database explicitly."""
    change: dict[str, object] = {"actions": ["update"], "before": before, "after": after}
    script = Script(**{"terraform show": planned({DATABASE: change})})
    steps = Deployment(place, lambda _: None, lambda _: "yes", script, NO_WAIT, base_url="http://x/")
    with pytest.raises(Aborted, match=f"This plan takes {lost} off the database signalbox-prod") as stopped:
        getattr(steps, goal)()
    assert 'Write this into environments/dev.tfvars.json: "environment": "prod"' in str(stopped.value)
    assert f"update --database=signalbox-prod --project={PROJECT} {flags}" in str(stopped.value)
    assert script.count("terraform apply") == 0


@pytest.mark.parametrize(("before", "after"), [(BARE, PROTECTED), (BARE, BARE), (PROTECTED, PROTECTED)])
def test_a_database_that_keeps_or_gains_its_protection_is_changed(
    place: deployment_target.Target, before: dict[str, str], after: dict[str, str]
) -> None:
    change: dict[str, object] = {"actions": ["update"], "before": before, "after": after}
    script = Script(**{"terraform show": planned({DATABASE: change})})
    assert Deployment(place, lambda _: None, lambda _: "yes", script, NO_WAIT, base_url="http://x/").deploy()


def test_a_database_that_only_leaves_the_state_is_not_lost(place: deployment_target.Target) -> None:
    before = {"name": "signalbox-prod", "deletion_policy": "ABANDON"}
    script = Script(**{"terraform show": planned({DATABASE: {"actions": ["delete"], "before": before}})})
    assert Deployment(place, lambda _: None, lambda _: "yes", script, NO_WAIT, base_url="http://x/").deploy()


@pytest.mark.parametrize("goal", ["deploy", "plan", "adopt"])
def test_no_empty_database_is_created_in_place_of_the_one_in_use(place: deployment_target.Target, goal: str) -> None:
    """In prod the old one would only leave the state, and all functions would begin with an empty one."""
    before = {"name": "signalbox-prod", "deletion_policy": "ABANDON"}
    changes: dict[str, dict[str, object]] = {
        DATABASE: {"actions": ["delete"], "before": before},
        DATABASE.replace("dev", "typo"): {"actions": ["create"], "after": {"name": "signalbox-typo"}},
    }
    steps = Deployment(place, lambda _: None, lambda _: "yes", script := Script(), NO_WAIT, base_url="http://x/")
    script.answers["terraform show"] = planned(changes)
    with pytest.raises(Aborted, match="creates an empty database in place of the database signalbox-prod"):
        getattr(steps, goal)()
    assert script.count("terraform apply") == 0
    changes[DATABASE.replace("dev", "typo")] = {"actions": ["update"], "importing": {"id": "restored"}}
    script.answers["terraform show"] = planned(changes)
    getattr(steps, goal)()


def test_a_deployment_keeps_its_region_in_the_environments_file(place: deployment_target.Target) -> None:
    here = deployment_target.read(PROJECT, "dev", "europe-west1", place.root)
    script = Script(**{"gcloud functions runtimes list": "python313"})
    assert Deployment(here, lambda _: None, lambda _: "y", script, NO_WAIT, base_url="http://x/").deploy()
    assert deployment_target.read(PROJECT, "dev", root=place.root).region == "europe-west1"


@pytest.mark.parametrize("goal", ["deploy", "saved", "plan", "adopt", "destroy", "smoke"])
@pytest.mark.parametrize(
    ("deployed", "remedy"),
    [
        ({"region": "europe-west1", "prefix": "dev"}, r"--region europe-west1 \(make: REGION=europe-west1\)"),
        ({"region": "us-central1", "prefix": "old"}, 'Set "prefix": "old" in environments/dev.tfvars.json'),
    ],
)
def test_another_region_or_prefix_than_the_deployed_one_is_refused_before_it_plans(
    place: deployment_target.Target, goal: str, deployed: dict[str, str], remedy: str
) -> None:
    script = Script(**{"terraform output": {name: {"value": each} for name, each in deployed.items()}})
    steps = Deployment(place, lambda _: None, lambda _: "dev" if goal == "destroy" else "yes", script, NO_WAIT)
    with pytest.raises(Aborted, match=remedy):
        steps.deploy(saved=True) if goal == "saved" else getattr(steps, goal)()
    assert script.count("terraform plan") + script.count("terraform apply") == 0


def test_a_state_of_the_same_place_is_deployed_again(place: deployment_target.Target) -> None:
    deployed = {"region": {"value": "us-central1"}, "prefix": {"value": "dev"}}
    script = Script(**{"terraform output": deployed})
    assert Deployment(place, lambda _: None, lambda _: "yes", script, NO_WAIT, base_url="http://x/").deploy()


def test_a_printed_command_names_its_deployment() -> None:
    place = deployment_target.read(PROJECT, "prod", "europe-west1")
    options = f"-p {PROJECT} -e prod --region europe-west1"
    assert place.complete("`signalbox adopt` and signalbox smoke.") == (
        f"`signalbox adopt {options}` and signalbox smoke {options}."
    )
    for text in (f"signalbox deploy {options}", "signalbox-dev", "signalbox package", "my.signalbox deploy"):
        assert place.complete(text) == text

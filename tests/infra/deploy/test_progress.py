"""An apply reports how far it is, in functions and minutes, and passes errors on."""

from signalbox_tools.deploy.apply_progress import EVERY_SECONDS, Progress
from signalbox_tools.deploy.plan_summary import Plan

FUNCTIONS = [f'module.function["{name}"].google_cloudfunctions2_function.function' for name in "ab"]
QUEUE = 'google_cloud_tasks_queue.queue["tasks"]'


def test_functions_are_counted_and_errors_passed_on() -> None:
    said, now = list[str](), [0.0]
    progress = Progress(Plan(created=(*FUNCTIONS, QUEUE)), said.append, lambda: now[0])
    for line in (f"{QUEUE}: Creating...\n", f"{QUEUE}: Creation complete after 1s [id=x]\n", "\n"):
        progress(line)
    assert said == []
    now[0] = 170.0
    progress(f"{FUNCTIONS[0]}: Creation complete after 2m50s [id=y]\n")
    progress(f"{FUNCTIONS[1]}: Still creating... [2m50s elapsed]\n")
    progress("Error: something\n")
    assert said == ["  1 of 2 functions built, 3 min (2 of 3 resources)", "Error: something"]


def test_what_is_waited_for_is_named() -> None:
    said, now = list[str](), [0.0]
    progress = Progress(Plan(created=(*FUNCTIONS, QUEUE)), said.append, lambda: now[0])
    for each in (*FUNCTIONS, 'google_firestore_field.unindexed["flows"]', "terraform_data.rights", QUEUE):
        progress(f"{each}: Creating...\n")
    progress(f"{QUEUE}: Creation complete after 1s [id=x]\n")
    now[0] = EVERY_SECONDS
    progress(f"{FUNCTIONS[1]}: Still creating... [30s elapsed]\n")
    waiting = "2 functions, settings of Firestore's indexes, rights to take effect"
    assert said == [f"  0 of 2 functions built, 0 min (1 of 3 resources); waiting for {waiting}"]


def test_progress_is_reported_every_half_minute() -> None:
    said, now = list[str](), [0.0]
    progress = Progress(Plan(created=(QUEUE,)), said.append, lambda: now[0])
    now[0] = EVERY_SECONDS
    progress(f"{QUEUE}: Still creating... [30s elapsed]\n")
    progress(f"{QUEUE}: Still creating... [40s elapsed]\n")
    assert said == ["  0 of 1 resources, 0 min"]

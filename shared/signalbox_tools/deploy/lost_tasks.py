"""Refuse a plan that destroys a function while tasks wait for it: nothing would answer at their address.

Such a function was renamed or removed, no longer has tasks, or is no longer open (the tasks of an open function are
called at ``NAME-tasks``). A task waits for up to 31 days. The queues are read only for a plan that destroys a function.
"""

import re
import shlex

from signalbox_tools.deploy import project_facts
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.plan_summary import Plan
from signalbox_tools.deploy.programs import Run

FUNCTION = re.compile(r'module\.function\["(\w+)"\]\.google_cloudfunctions2_function\.function')
REFUSAL = """Tasks wait for functions that this plan destroys, and would be lost:
{tasks}
Deploy this change after they have run. To list them (`gcloud tasks delete` deletes one):
{commands}"""


def refuse_lost_tasks(target: Target, plan: Plan, run: Run) -> list[str]:
    """Return a warning for each queue that cannot be read. Raises `Aborted` if tasks wait for a destroyed function."""
    gone = [target.service(found[1]) for each in plan.destroyed if (found := FUNCTION.fullmatch(each))]
    queues = project_facts.queues(target, run) & set(map(target.service, target.catalogue.queues)) if gone else ()
    waiting: list[tuple[str, str]] = []
    unread: list[str] = []
    for queue in sorted(queues):
        outcome = run((*_list(target, queue, gone), "--limit=1", "--format=value(httpRequest.url)"), folder=target.root)
        if not outcome.ok:
            unread.append(f"Warning: whether tasks wait for {', '.join(gone)} in the queue {queue} is not known.")
        elif url := outcome.text.strip():
            waiting.append((queue, url))
    if waiting:
        tasks = "\n".join(f"  {queue}: {url}" for queue, url in waiting)
        commands = "\n".join(f"  {shlex.join(_list(target, queue, gone))}" for queue, _ in waiting)
        raise Aborted(REFUSAL.format(tasks=tasks, commands=commands))
    return unread


def _list(target: Target, queue: str, services: list[str]) -> tuple[str, ...]:
    """Return the command that lists the tasks of a queue for these services."""
    where = (f"--queue={queue}", f"--location={target.region}", f"--project={target.project}")
    address = rf"^https://({'|'.join(services)})-[0-9]+\.{target.region}\.run\.app/"
    return "gcloud", "tasks", "list", *where, f"--filter=httpRequest.url~{address}"

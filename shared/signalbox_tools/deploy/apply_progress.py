"""Report the progress of an apply ("9 of 17 functions built, 3 min") instead of Terraform's line for each resource.

A function takes minutes, a setting of Firestore's fields 30 to 120 seconds, everything else seconds. The report names
the resources in progress. Lines that are not about a resource, such as errors, are printed unchanged.
"""

import re
import time
from collections import Counter
from collections.abc import Callable

from signalbox_tools.deploy.plan_summary import Plan

FUNCTION = "google_cloudfunctions2_function."
OF_A_RESOURCE = re.compile(
    r"(\S+?\S*): (Creating|Modifying|Destroying|Still |Creation complete|Modifications complete|Destruction complete|"
    r"Importing|Import complete|Reading|Read complete|Refreshing|Provisioning)|\S+ \(local-exec\):"
)
BEGUN = re.compile(r"(\S.*?): (Creating|Modifying|Destroying)\.\.\.")
LABELS = (
    (FUNCTION, "functions"),
    ("google_firestore_database.", "the database"),
    ("google_firestore_backup", "backup schedules"),
    ("google_firestore_", "settings of Firestore's indexes"),
    ("terraform_data.rights", "rights to take effect"),
    ("_iam_binding.", "rights"),
    ("_iam_member.", "rights"),
    ("google_project_service.", "APIs"),
    ("google_service_account.", "accounts"),
)
DONE = re.compile(r"(\S.*?): (Creation|Modifications|Destruction) complete")
EVERY_SECONDS = 30.0


class Progress:
    """The progress of a plan's apply; call it with each line that Terraform prints."""

    def __init__(self, plan: Plan, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._wanted = frozenset((*plan.created, *plan.changed, *plan.replaced))
        self._functions = frozenset(each for each in self._wanted if FUNCTION in each)
        self._done: set[str] = set()
        self._under_way: dict[str, None] = {}
        self._say, self._clock = say, clock
        self._began = self._said_at = clock()

    def __call__(self, line: str) -> None:
        """Count the resource that a line reports; report progress after each function, and every 30 seconds."""
        done = DONE.match(line)
        if done:
            self._done.add(done[1])
            self._under_way.pop(done[1], None)
        elif begun := BEGUN.match(line):
            self._under_way[begun[1]] = None
        if not OF_A_RESOURCE.match(line):
            if line.strip():
                self._say(line.rstrip())
        elif (done and done[1] in self._functions) or self._clock() - self._said_at >= EVERY_SECONDS:
            self._said_at = self._clock()
            self._say(str(self))

    def __str__(self) -> str:
        minutes = f"{(self._clock() - self._began) / 60:.0f} min"
        resources = f"{len(self._done & self._wanted)} of {len(self._wanted)} resources"
        waits = f"; waiting for {self._waiting()}" if self._under_way else ""
        if not self._functions:
            return f"  {resources}, {minutes}{waits}"
        built = f"{len(self._done & self._functions)} of {len(self._functions)} functions built"
        return f"  {built}, {minutes} ({resources}){waits}"

    def _waiting(self) -> str:
        """Return the resources in progress: the number of each kind."""
        kinds = Counter(next((name for part, name in LABELS if part in each), "others") for each in self._under_way)
        return ", ".join(f"{count} {name}" if count > 1 else name for name, count in kinds.items())

"""Report how far an apply has come: "9 of 17 functions built, 3 min", in place of Terraform's line for each resource.

Functions take minutes each, everything else seconds. Lines that are not about a resource, such as errors, are passed
on as they are.
"""

import re
import time
from collections.abc import Callable

from signalbox_infra.deploy.plans import Plan

FUNCTION = "google_cloudfunctions2_function."
OF_A_RESOURCE = re.compile(
    r"(\S+?\S*): (Creating|Modifying|Destroying|Still |Creation complete|Modifications complete|Destruction complete|"
    r"Importing|Import complete|Reading|Read complete|Refreshing|Provisioning)|\S+ \(local-exec\):"
)
DONE = re.compile(r"(\S.*?): (Creation|Modifications) complete")
EVERY_SECONDS = 30.0


class Progress:
    """What a plan's apply has done; call it with each line that Terraform prints."""

    def __init__(self, plan: Plan, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._wanted = frozenset((*plan.created, *plan.changed, *plan.replaced))
        self._functions = frozenset(each for each in self._wanted if FUNCTION in each)
        self._done: set[str] = set()
        self._say, self._clock = say, clock
        self._began = self._said_at = clock()

    def __call__(self, line: str) -> None:
        """Count what a line says was done; report progress after each function, and every half minute."""
        done = DONE.match(line)
        if done:
            self._done.add(done[1])
        if not OF_A_RESOURCE.match(line):
            if line.strip():
                self._say(line.rstrip())
        elif (done and done[1] in self._functions) or self._clock() - self._said_at >= EVERY_SECONDS:
            self._said_at = self._clock()
            self._say(str(self))

    def __str__(self) -> str:
        minutes = f"{(self._clock() - self._began) / 60:.0f} min"
        resources = f"{len(self._done & self._wanted)} of {len(self._wanted)} resources"
        if not self._functions:
            return f"  {resources}, {minutes}"
        built = f"{len(self._done & self._functions)} of {len(self._functions)} functions built"
        return f"  {built}, {minutes} ({resources})"

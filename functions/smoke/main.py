"""The smoke test's own task: a unit of its batch, which only queues may call.

It shows that the queue `tasks` reaches a user's function, and that its units complete a batch.
"""

from signalbox.batches.model.units import Unit
from signalbox.function.user_function import Function

app = Function("smoke")


@app.task
def check(unit: Unit) -> int:
    """Return the unit's index, its result."""
    return unit.index


smoke = app.entry_point()

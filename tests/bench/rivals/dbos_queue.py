"""A DBOS workflow on SQLite that enqueues so many workflows and waits for all. Prints the seconds it took.

It runs in an environment of its own, which `tests.bench.batches` makes; the project does not depend on DBOS.
"""

import logging
import sys
import tempfile
import time

from dbos import DBOS

QUEUE = "units"


@DBOS.workflow()
def paint(square: int) -> dict[str, int]:
    """Return a unit's result."""
    return {"row": square // 50, "column": square % 50}


@DBOS.workflow()
def all_of(units: int) -> int:
    """Enqueue the units and wait for each."""
    handles = [DBOS.enqueue_workflow(QUEUE, paint, number) for number in range(units)]
    return len([handle.get_result(polling_interval_sec=0.1) for handle in handles])


def main() -> None:
    units, workers = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        DBOS(config={"name": "rival", "system_database_url": f"sqlite:///{folder}/dbos.sqlite"})
        DBOS.launch()
        DBOS.register_queue(QUEUE, worker_concurrency=workers * 8, polling_interval_sec=0.1)
        logging.disable(logging.CRITICAL)
        began = time.monotonic()
        if all_of(units) != units:
            sys.exit("units were lost")
        sys.stdout.write(f"{time.monotonic() - began:.3f}\n")
        DBOS.destroy()


if __name__ == "__main__":
    main()

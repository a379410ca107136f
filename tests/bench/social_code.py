"""Social Code at size: a forest of functions with hubs, in one process, and a hub's save under faulty deliveries.

The store and the queue are in memory, the sandbox is real. `make bench NAME=social_code` prints how long a hub's save
takes, and checks that each dependant has one run of the new code.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from signalbox import batch, documents
from signalbox.testing import Faults, Harness
from tests.social_functions import published

HUB = "F0"
DOCUMENTS_AT_ONCE = 500


def forest(functions: int, dependants: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield functions. The first `dependants` after the hub import it; the others import earlier ones that do not."""
    random = Random(seed)
    yield _function(0, [])
    for number in range(1, functions):
        others = range(dependants + 1, number)
        imports = [0] if number <= dependants else [random.choice(others) for _ in range(2) if others]
        yield _function(number, imports)


def _function(number: int, imports: list[int]) -> dict[str, Any]:
    names = [f"F{each}" for each in dict.fromkeys(imports)]
    called = " + ".join(f"{name}()" for name in names) or "1"
    return published(f"F{number}", [called if number <= 1 or imports == [0] else "1"], f"check(F{number}() > 0)", names)


def _all_documents(*where: tuple[str, str, Any]) -> Iterator[dict[str, Any]]:
    token = ""
    while True:
        page = documents.query(*where, limit=DOCUMENTS_AT_ONCE, page_token=token)
        yield from page.documents
        if not (token := page.next_page_token):
            return


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.social_code", description=__doc__)
    parser.add_argument("--functions", type=int, default=10_000)
    parser.add_argument("--dependants", type=int, default=2_000, help="of the hub")
    parser.add_argument("--duplicate", type=float, default=0.05, help="the share of tasks that are delivered twice")
    parser.add_argument("--lose-answer", type=float, default=0.05, help="and whose answer is lost")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with Harness() as harness:
        stored = list(forest(options.functions, options.dependants, options.seed))
        for start in range(0, len(stored), DOCUMENTS_AT_ONCE):
            documents.put_many(stored[start : start + DOCUMENTS_AT_ONCE])
            harness.run()
        began_at = time.monotonic()
        draft = f"social-code/functions/{HUB}/draft"
        assert harness.put(draft, json={"code": f"def {HUB}():\n    return 2"}).status == 202
        assert harness.post(f"{draft}/publish").status == 202
        harness.run(
            Faults(duplicate=options.duplicate, lose_answer=options.lose_answer, reorder=True, seed=options.seed)
        )
        seconds = time.monotonic() - began_at
        started = documents.get(f"social-batch~{HUB.lower()}")["batch"]
        results = Counter(unit["result"]["name"] for unit in batch(started).results())
        kept = Counter(
            run["run_of"] for run in _all_documents(("type", "==", "SocialRun")) if not run["run_of"].endswith("~draft")
        )
    expected = {f"f{number}" for number in range(1, options.dependants + 1)}
    assert set(results) == expected, "a dependant's tests did not run"
    assert set(results.values()) == {1}, "a dependant is twice in the batch"
    hub = kept.pop(HUB.lower())
    assert (hub, set(kept.values())) == (2, {1}), f"{hub} runs of the hub's implementations, {len(kept)} of dependants"
    sys.stdout.write(
        f"{options.functions:,} functions, {len(expected):,} runs kept, one each: "
        f"{seconds:.1f} s, {seconds / len(expected) * 1000:.1f} ms a run\n"
    )


if __name__ == "__main__":
    main()

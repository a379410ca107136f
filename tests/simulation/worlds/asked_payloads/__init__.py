"""Random public calls with large values, compared with a model that uses nothing of the kit.

`model.py` says, from docs/payloads.md alone, which values are stored in the bucket, how HTTP shows them, and until when
they are kept. `acts.py` draws calls of flows, objects, batches and tasks from a seed. `compared.py` makes them in the
test harness (`kit.py`, `shop.py`) and in the model (`code.py`), and compares the answers, the contents of the bucket at
rest, and those after each term.

    python -m tests.simulation --world asked_payloads --seeds 10000
    python -m tests.simulation --world asked_payloads --replay 4711
"""

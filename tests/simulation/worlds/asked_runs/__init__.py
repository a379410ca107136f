"""Random requests to a run, compared with a model that uses nothing of the kit: updates, events, starts with a message.

`model.py` says what callers and the run's code may observe, from the pages alone. `compared.py` draws the code of a run
and the requests to it from a seed, sends them to the kit and to the model, and compares each response, and what is seen
once everything is delivered. A program that differs is shrunk to a small one.

    python -m tests.simulation --world asked_runs --seeds 100000
    python -m tests.simulation --world asked_runs --replay 4711
"""

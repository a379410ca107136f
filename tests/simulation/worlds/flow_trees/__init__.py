"""Random programs of flows, compared with a model that is not the driver.

A run that is compared with the same driver without turns does not show a rule that the driver itself breaks. Here a
*model* (`model.py`) says what the code of a flow may observe: it is a small interpreter of commands, groups, shields,
handles, locks and cancels, written from docs/flows.md and docs/flow-waits.md. Where a page leaves a choice open, the
page is completed, not the model adapted in silence. Other worlds of flows also apply the logs of their runs to the
model (`flows/modelled_flows.py`).

- `nodes.py`, `groups.py` and `handles.py` are the parts of the model.
- `programs.py` draws a program from a seed, runs it over either implementation, and prints it as Python.
- `compared.py` ends its commands one by one, in an order drawn from the seed, and compares after each entry what each
  branch has observed, what is pending, which locks are held, which events are kept, and how the run ended. A program
  that differs is shrunk to a small one. A tenth of the programs wait mostly for events, many of which are kept when
  their groups begin.

    python -m tests.simulation --world flow_trees --first 0 --seeds 1000000
    python -m tests.simulation --world flow_trees --replay 4711
"""

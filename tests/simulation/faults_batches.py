"""All faults of the batches; `faults.py` defines what a fault is, docs/protocols/batches.md what each clause is for."""

from tests.simulation import (
    faults_batches_chains,
    faults_batches_ends,
    faults_batches_pages,
    faults_batches_runs,
    faults_batches_tree,
)

FAULTS = (
    *faults_batches_tree.FAULTS,
    *faults_batches_pages.FAULTS,
    *faults_batches_runs.FAULTS,
    *faults_batches_ends.FAULTS,
    *faults_batches_chains.FAULTS,
)

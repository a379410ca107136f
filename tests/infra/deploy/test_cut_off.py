"""A deployment that is interrupted while it applies has recorded everything that it created."""

import os
import signal
import time

import pytest

from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.user_clone import Clone
from tests.infra.google_provider.server import GoogleProvider

pytestmark = pytest.mark.slow

MADE = 60  # some of what a deployment makes, by far not all
KEPT = {"google_cloud_tasks_queue", "google_firestore_field"}  # queues keep their names; fields go with the database


@pytest.mark.marathon
def test_what_was_made_before_ctrl_c_is_in_the_state(clone: Clone, own_google: GoogleProvider) -> None:
    with clone.started("deploy", f"PROJECT={PROJECT}", "YES=1") as deploying:
        while not _has_made_enough(own_google) and deploying.poll() is None:
            time.sleep(0.005)
        os.killpg(deploying.pid, signal.SIGINT)
        said, _ = deploying.communicate(timeout=60)
    assert b"Interrupted. The state has what was created" in said
    assert deploying.returncode != 0
    destroyed = clone.make("destroy", f"PROJECT={PROJECT}", "CONFIRM=dev")
    assert destroyed.returncode == 0, destroyed.stdout
    assert {kind for kind, _ in own_google.cloud.existing} <= KEPT


def _has_made_enough(google: GoogleProvider) -> bool:
    made = list(google.cloud.existing)
    return len(made) >= MADE and {kind for kind, _ in made} > KEPT

"""The bucket for Terraform's states. It also has the state of the bootstrap, so that any machine can upgrade rights.

gcloud creates it, since Terraform cannot keep its state in a bucket that it is about to create. Creating it again
changes nothing.
"""

from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import CommandFailed, Run
from signalbox_tools.deploy.terraform import Terraform

PREFIX = "bootstrap"
CLOSED = ("--uniform-bucket-level-access", "--public-access-prevention")
LIFECYCLE = "state_lifecycle.json"


def make_bucket(target: Target, run: Run) -> None:
    """Create the bucket for the states. Raises `CommandFailed`."""
    where = (f"--project={target.project}", f"--location={target.region}")
    _storage(target, run, "create", *where, *CLOSED)


def connect(engine: Terraform, target: Target, run: Run) -> None:
    """Connect the bootstrap to its state; the bucket keeps 20 older versions of it. Raises `CommandFailed`."""
    lifecycle = target.infra / "bootstrap" / LIFECYCLE
    _storage(target, run, "update", "--versioning", f"--lifecycle-file={lifecycle}")
    engine.init(f"bucket={target.state_bucket}", f"prefix={PREFIX}")


def _storage(target: Target, run: Run, verb: str, *options: str) -> None:
    outcome = run(("gcloud", "storage", "buckets", verb, f"gs://{target.state_bucket}", *options), folder=target.root)
    if not outcome.ok:
        raise CommandFailed(outcome.error.strip())

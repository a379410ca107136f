"""Deploy for the first time into a project with Google's delays, once for each seed, on a virtual clock.

    python -m tests.infra.deploy.first_deployments --seeds 100 [--keep]

The real `signalbox deploy` (but for the packaging) with the real Terraform, on a stand-in for Google that refuses what
a new project refuses. Each seed must end deployed, with nothing left to do, or with a message that names what to do.
Prints a line for each seed; the exit status is 1 if one ends otherwise. `--keep` writes the table of all seeds into the
README of the stand-in.
"""

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import httpx

from signalbox.catalogue.reading import load
from signalbox_tools import http_client
from signalbox_tools.deploy import deployment_steps
from signalbox_tools.deploy.google_refusals import UNKNOWN
from signalbox_tools.deploy.programs import CommandFailed, Outcome
from signalbox_tools.packaging.zip_building import build
from tests.infra.deploy.deployment_in_memory import Deployment
from tests.infra.deploy.gcloud import ENABLED, PROJECT
from tests.infra.deploy.project_copy import Project
from tests.infra.deploy.scripted_programs import Script
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.google_provider.service_delays import Delays

BUCKET = f"gcloud storage buckets describe gs://{PROJECT}-signalbox-state"
SERVICES = f"gcloud services list --enabled --project={PROJECT}"
ENABLED_SECONDS = 30.0
TO_DO = re.compile(r"^  To do: (.*)$", re.MULTILINE)
PAGE = Path(__file__).parents[1] / "google_provider" / "README.md"
KEPT = re.compile(r"(<!-- kept: rehearsal -->\n).*(\n<!-- end of rehearsal -->)", re.DOTALL)
REASON = re.compile(r"^Not yet: (.*?)[.:] ?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a seed's deployment ended."""

    seed: int
    deployed: bool
    applies: int
    minutes: float
    reasons: tuple[str, ...]
    to_do: str

    @property
    def right(self) -> bool:
        return self.deployed or (bool(self.to_do) and UNKNOWN.remedy not in self.to_do)

    def __str__(self) -> str:
        how = "deployed" if self.deployed else f"stopped: {self.to_do}" if self.to_do else "FAILED"
        return f"{self.seed:5}  {self.applies} applies  {self.minutes:4.0f} min  {how}\n" + "".join(
            f"         {reason}\n" for reason in self.reasons
        )


class Gcloud(Script):
    """The answers of a project in which nothing was done; enabling an API takes time and begins its delay."""

    def __init__(self) -> None:
        later = {BUCKET: [None, *["there"] * 3], SERVICES: ["", *[ENABLED] * 3]}
        super().__init__(**later, **{"gcloud services enable": ""})
        self.delays: Delays | None = None

    def __call__(self, command: Sequence[str], **options: object) -> Outcome:
        if self.delays and list(command[:3]) == ["gcloud", "services", "enable"]:
            self.delays.clock.sleep(ENABLED_SECONDS)
            for api in command[3:-1]:
                self.delays.enabled(api)
        return super().__call__(command, **options)


def first_deployment(seed: int, folder: Path, zips: Path, catalogue: Mapping[str, Any] | None = None) -> Ended:
    """Deploy into a new project, by default the kit with its examples, then plan again."""
    with GoogleProvider() as google:
        project = Project(folder, google, zips, gcloud := Gcloud(), catalogue=catalogue)
        google.cloud.delays = gcloud.delays = delays = Delays(seed, project.clock)
        known_at, fires_at = delays.late("callers", 280), delays.late("trigger", 120)
        functions = Deployment(now=project.clock.now, known_at=known_at, fires_at=fires_at)
        steps = project.flow(said := list[str]())
        with _calling(functions):
            deployed, stopped = _tried(steps)
        left = not steps.plan().empty if deployed else False
    to_do = "" if deployed else " / ".join(dict.fromkeys(TO_DO.findall(stopped)))
    reasons = tuple(f"{count} x {reason}" for reason, count in Counter(REASON.findall("\n".join(said))).items())
    return Ended(seed, deployed and not left, project.applies, project.clock.now() / 60, reasons, to_do)


def _tried(steps: deployment_steps.Deployment) -> tuple[bool, str]:
    try:
        return steps.deploy(), ""
    except CommandFailed as error:
        return False, str(error)


def _calling(functions: Deployment) -> Any:
    """Send the smoke test to a deployment in memory; its delays count from the first call."""

    def client(*_: object) -> httpx.Client:
        return httpx.Client(transport=httpx.MockTransport(functions.from_now_on()))

    return mock.patch.object(http_client, "client", client)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.infra.deploy.first_deployments", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="write the table into the README of the stand-in")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="first-deployments-") as folder,
        ProcessPoolExecutor(options.at_once) as pool,
    ):
        zips = Path(folder, "dist")
        build(load(), (), zips)
        seeds = range(options.first, options.first + options.seeds)
        ended = []
        for each in pool.map(partial(_alone, folder=Path(folder), zips=zips), seeds):
            ended.append(each)
            sys.stdout.write(str(each))
            sys.stdout.flush()
    sys.stdout.write(f"{_summary(ended)}\n")
    if options.keep:
        page = PAGE.read_text("utf-8")
        PAGE.write_text(KEPT.sub(lambda found: f"{found[1]}\n{table(ended)}\n{found[2]}", page), "utf-8")
    return 0 if all(each.right for each in ended) else 1


def table(ended: Sequence[Ended]) -> str:
    """Return how the seeds ended, how many of them so, and after how many minutes at most."""
    groups: dict[str, list[Ended]] = {}
    for each in sorted(ended, key=lambda each: (not each.deployed, each.applies)):
        stopped = f"stopped: {each.to_do}" if each.to_do else "FAILED"
        groups.setdefault(f"deployed, in {each.applies} applies" if each.deployed else stopped, []).append(each)
    rows = [f"| {how} | {len(each)} | {max(one.minutes for one in each):.0f} |" for how, each in groups.items()]
    return "\n".join([f"| of {len(ended)} seeds | | minutes at most |", "|---|---|---|", *rows])


def _alone(seed: int, folder: Path, zips: Path) -> Ended:
    with mock.patch.object(deployment_steps, "build", return_value=[]), tempfile.TemporaryDirectory(dir=folder) as own:
        return first_deployment(seed, Path(own), zips)


def _summary(ended: Sequence[Ended]) -> str:
    through = [each for each in ended if each.deployed]
    applies = Counter(each.applies for each in through)
    stopped = Counter(each.to_do for each in ended if not each.deployed and each.to_do)
    return json.dumps(
        {
            "seeds": len(ended),
            "deployed": len(through),
            "by applies": dict(sorted(applies.items())),
            "longest, minutes": round(max((each.minutes for each in through), default=0.0)),
            "stopped with what to do": dict(stopped),
            "failed": [each.seed for each in ended if not each.right],
        },
        indent=2,
    )


if __name__ == "__main__":
    sys.exit(main())

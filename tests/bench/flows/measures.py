"""Measures of an engine's flows: the times of steps, in seconds since 1970, and what is computed from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mean, median, quantiles
from typing import Any, Self

from tests.bench.figures import Figure

NOTICEABLE_MILLISECONDS = 0.01
"""Less processor time in a step is shown as none."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures of one engine. `chains` has the start times of each chain's steps, `first` the seconds to the first one.

    `fan_outs` has the seconds from the step before a fan-out to the step after it, by the fan-out. `at_once` flows of
    `at_once_steps` steps each took `at_once_seconds`, and `crowded` seconds to the first step of each. `dispatches` are
    the seconds that the chains' steps spent in the queue, if known. `alone` has the seconds of flows of one step, from
    the call that starts one to its result.
    """

    chains: Sequence[Sequence[float]]
    first: Sequence[float]
    fan_outs: Mapping[str, Sequence[float]]
    at_once: int
    at_once_steps: int
    at_once_seconds: float
    crowded: Sequence[float]
    dispatches: Sequence[float] = ()
    alone: Sequence[float] = ()
    processor: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Read what a rival printed."""
        return cls(**value)

    @property
    def steps(self) -> list[float]:
        """The seconds of each step of the chains: from its beginning to the beginning of the next."""
        return [after - before for chain in self.chains for before, after in pairwise(chain)]

    @property
    def step_means(self) -> list[float]:
        """The mean seconds of a step of each chain."""
        return [(chain[-1] - chain[0]) / (len(chain) - 1) for chain in self.chains if len(chain) > 1]

    @property
    def chain_rate(self) -> float:
        """Steps a second in a chain."""
        return 1 / mean(self.steps)

    @property
    def at_once_rate(self) -> float:
        """Steps a second of all flows that run at once."""
        return self.at_once * self.at_once_steps / self.at_once_seconds


def lines(name: str, measured: Measures, base: Measures) -> list[str]:
    """Return the lines of an engine's table; each ratio is to the steps a second of `base` in the same run."""
    ratio, crowded_ratio = measured.chain_rate / base.chain_rate, measured.at_once_rate / base.at_once_rate
    chain = f"{measured.chain_rate:>9,.1f} steps/s  x {ratio:<7.2f} a step {centiles(measured.steps)}"
    many = f"{measured.at_once_rate:>9,.1f} steps/s  x {crowded_ratio:<7.2f} in {measured.at_once_seconds:,.1f} s"
    return [
        _line(name, "chain", chain),
        *([_line(name, "of it queue", _share(measured))] if measured.dispatches else []),
        _line(name, "first step", centiles(measured.first)),
        *([_line(name, "a flow", centiles(measured.alone))] if measured.alone else []),
        _line(name, "a step", centiles(measured.step_means)),
        *(
            _line(name, what, f"{median(seconds):>9,.2f} s there and back")
            for what, seconds in measured.fan_outs.items()
        ),
        _line(name, f"{measured.at_once:,} flows", many),
        _line(name, "their first", centiles(measured.crowded)),
        *([_line(name, "processor", _parts(measured.processor))] if measured.processor else []),
    ]


def figures(steps: str, own: Measures, name: str, rival: Measures) -> list[str]:
    """Return the lines of the figures with steps of a kind, compared with a rival's."""
    chain = Figure(f"a chain of {steps} steps", own.chain_rate, "steps/s", name, rival.chain_rate)
    what = f"{own.at_once:,} flows with {own.at_once_steps} {steps} steps each"
    return [chain.line(), Figure(what, own.at_once_rate, "steps/s", name, rival.at_once_rate).line()]


def processor_figures(task: Measures, inline: Measures) -> Iterator[str]:
    """Iterate over the lines of the processor time of a task step, in all and by part of the stack.

    Each is compared with that of an inline step.
    """
    what = "processor time of a task step"
    whole, anchor = (1000 * sum(each.processor.values()) for each in (task, inline))
    yield Figure(what, whole, "ms", "an inline step", anchor).line()
    for part, seconds in task.processor.items():
        if seconds and inline.processor.get(part):
            yield Figure(
                f"{what}: {part}", 1000 * seconds, "ms", "an inline step", 1000 * inline.processor[part]
            ).line()


def _parts(seconds: Mapping[str, float]) -> str:
    return "  ".join(f"{part} {1000 * used:,.2f} ms" for part, used in seconds.items() if used) + "  a step"


def _line(name: str, what: str, numbers: str) -> str:
    return f"{name:<16}{what:<14}{numbers}"


def _share(measured: Measures) -> str:
    share = 100 * sum(measured.dispatches) / sum(measured.steps)
    return f"{centiles(measured.dispatches)}  {share:.0f} % of the time"


def centiles(seconds: Sequence[float]) -> str:
    """Return the median, and the 90th and 99th percentiles, in milliseconds."""
    known = [*seconds] * 2 if len(seconds) == 1 else seconds
    cut = quantiles(known, n=100, method="inclusive")
    return "  ".join(f"p{centile} {1000 * cut[centile - 1]:>8,.1f} ms" for centile in (50, 90, 99))

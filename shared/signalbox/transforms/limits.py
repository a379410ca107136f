"""The limits of transforms, each with its reason."""

from signalbox.core.limits import Limits


class TransformLimits(Limits):
    transform_bytes_max: int = 100 * 1024
    """Bytes of a stored transform. A page that refreshes copies reads the transforms of all their fields."""

    transforms_listed_max: int = 50
    """Transforms in one answer. Even at their largest, they fit into a function's memory."""

    transform_steps_max: int = 50_000
    """Steps of one run: tens of milliseconds, and a document may have hundreds of links."""

    transform_letters_per_step: int = 64
    """Characters of a transform's text whose scan counts as a step, since it takes as long."""


LIMITS = TransformLimits()

"""The error of a catalogue that is refused, and the checks of values that several entries have."""


class CatalogueError(ValueError):
    """The catalogue is inconsistent with itself or with the project. The message names the entry and what to change."""


def refuse(wrong: bool, message: str) -> None:
    """Raise `CatalogueError` with the message if `wrong`."""
    if wrong:
        raise CatalogueError(message)


def check_between(name: str, value: float, least: float, most: float) -> None:
    refuse(not least <= value <= most, f"{name} must be from {least} to {most}: {value}")

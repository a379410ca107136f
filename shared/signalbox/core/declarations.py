"""Declarations of the catalogue that decisions read, as JSON texts by name. The settings set them for the process."""

DECLARED: dict[str, str] = {}

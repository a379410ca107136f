"""The version of the kit: the wheel takes it from here (`[tool.hatch.version]` of pyproject.toml)."""

VERSION = "0.1.0"

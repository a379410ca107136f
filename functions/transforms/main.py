"""Transforms of the copies under links in the fields of their names. See `signalbox/transforms/`."""

from signalbox.transforms.http import routes

transforms = routes.entry_point()

"""Batches for callers: list, populate, add pages, seal, watch, retry, cancel. See `signalbox/batches/`."""

from signalbox.batches.http.routes import routes

batches = routes.entry_point()

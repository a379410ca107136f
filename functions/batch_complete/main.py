"""Units completed from outside, by a person, another system, or a machine without a queue. See `signalbox/batches/`."""

from signalbox.batches.http.complete import routes

batch_complete = routes.entry_point()

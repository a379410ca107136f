"""Failures for people: read, run again or delete tasks that were given up; read tasks that are being retried."""

from signalbox.tasks.http.failures import routes

failures = routes.entry_point()

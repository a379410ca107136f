"""Failures for people: tasks that were given up, which people can read, run again or delete, and tasks that are being
retried.
"""

from signalbox.tasks.http.failures import routes

failures = routes.entry_point()

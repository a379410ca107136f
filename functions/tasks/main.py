"""Tasks: enqueue a call of a user's function, now or later, once for an id; for people and for schedules."""

from signalbox.tasks.http.enqueues import routes

tasks = routes.entry_point()

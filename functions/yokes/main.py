"""`{base}yokes`: relations between users and items."""

from signalbox.standings.http import yoke_routes as routes

yokes = routes.entry_point()

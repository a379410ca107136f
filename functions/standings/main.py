"""`{base}standings`: counts of yokes, leaderboards and ranks, and the declared kinds."""

from signalbox.standings.http import standing_routes as routes

standings = routes.entry_point()

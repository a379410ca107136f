"""Create, change, show and delete semaphores; list them; end a lease as an operator. See `signalbox/semaphores/`."""

from signalbox.semaphores.http.semaphores import routes

semaphores = routes.entry_point()

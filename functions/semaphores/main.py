"""Create, change, show and delete semaphores; list them; end a lease as an operator. See `signalbox/semaphores/`."""

from signalbox.semaphores.http import semaphores as routes

semaphores = routes.entry_point()

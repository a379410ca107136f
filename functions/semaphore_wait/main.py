"""Wait for permits, or cancel a wait. See `signalbox/semaphores/`."""

from signalbox.semaphores.http.permits import semaphore_wait as routes

semaphore_wait = routes.entry_point()

"""Renew a lease that is still held. See `signalbox/semaphores/`."""

from signalbox.semaphores.http.permits import semaphore_renew as routes

semaphore_renew = routes.entry_point()

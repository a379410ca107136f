"""Signal a semaphore: end a lease, and grant its permits to the waiters. See `signalbox/semaphores/`."""

from signalbox.semaphores.http.permits import semaphore_signal as routes

semaphore_signal = routes.entry_point()

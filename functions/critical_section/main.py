"""Call a critical section, or show its state. See `signalbox/critical_sections/`."""

from signalbox.critical_sections.http import routes

critical_section = routes.entry_point()

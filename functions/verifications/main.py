"""Verifications: compare and repair all copies, nightly or on demand, and read the reports. See `signalbox/links/`."""

from signalbox.links.http import routes

verifications = routes.entry_point()

"""Documents: put, patch, get, delete and find JSON under keys. See `signalbox/documents/`."""

from signalbox.documents.http import routes

documents = routes.entry_point()

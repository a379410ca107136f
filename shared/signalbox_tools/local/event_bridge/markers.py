"""The document whose event shows that the events of all earlier commits have arrived from an emulator."""

MARKER_TRIGGER = "signalbox-marker"
MARKER_DOCUMENT = "signalbox-markers/marker"
MARKER_FIELD = "number"

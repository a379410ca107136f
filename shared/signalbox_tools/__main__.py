"""``python -m signalbox_tools``: the command `signalbox`, even if no package is installed."""

import sys

from signalbox_tools.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

"""``python -m signalbox_infra``: the command `signalbox`, also where no package is installed."""

import sys

from signalbox_infra.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

"""`recollect` and `python -m recollect`: hands the composition root to the command line."""

from __future__ import annotations

import sys

from recollect.interfaces.cli.main import run


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

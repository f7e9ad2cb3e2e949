"""`python -m recollect.migrate PROJECT --to MODE`: the same as `recollect migrate`."""

from __future__ import annotations

import sys

from recollect.__main__ import AppLauncher
from recollect.interfaces.cli.main import run


def main() -> None:
    """With the arguments of this process."""
    sys.exit(run(["migrate", *sys.argv[1:]], AppLauncher()))


if __name__ == "__main__":
    main()

"""`python -m mindhold.migrate PROJECT --to MODE`: the same as `mindhold migrate`."""

from __future__ import annotations

import sys

from mindhold.__main__ import AppLauncher
from mindhold.interfaces.cli.main import run


def main() -> None:
    """With the arguments of this process."""
    sys.exit(run(["migrate", *sys.argv[1:]], AppLauncher()))


if __name__ == "__main__":
    main()

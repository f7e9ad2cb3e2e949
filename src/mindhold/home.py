"""The home folder: made with its rooms, and closed to everybody else on the machine."""

from __future__ import annotations

import logging
from pathlib import Path

from mindhold.bare.rights import tighten, told
from mindhold.model.errors import StoreReadOnly

ROOMS = ("data", "models", "backups", "logs", "export")
log = logging.getLogger(__name__)


def make_home(home: Path, *, database: Path | None = None) -> None:
    """For its owner only, also where it was made or changed by somebody else's hand, which is told. Raises StoreReadOnly."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ROOMS:
            (home / name).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreReadOnly(
            f"The home folder {home} can't be made: {error.strerror}.",
            advice="Choose another with MINDHOLD_HOME.",
        ) from error
    mended = tighten(str(home), str(database) if database else "")
    if mended:
        log.warning("%s", told(mended, home=str(home)))

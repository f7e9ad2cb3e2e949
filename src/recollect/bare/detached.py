"""How the worker begins: on its own, and in nobody's way."""

from __future__ import annotations

import os
from contextlib import suppress

from recollect.bare.environment import home


def detach() -> str:
    """Leaves the session and the folder of whoever started it; the home that it works for. Raises OSError."""
    found = home()
    if hasattr(os, "setsid"):
        with suppress(OSError):  # it leads one already
            os.setsid()
    os.makedirs(found, mode=0o700, exist_ok=True)
    os.chdir(found)
    return found

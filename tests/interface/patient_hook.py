"""`mindhold hook`, but for its patience: a running Mindhold has a tenth of a second, and a busy machine may need more."""

from __future__ import annotations

import sys

_PATIENT = (
    "from mindhold.__main__ import main\n"
    "from mindhold.interfaces.hooks import context\n"
    "context.PATIENCE = 60.0\n"
    "main()\n"
)


def patient_hook() -> list[str]:
    """What to run instead of `python -m mindhold`."""
    return [sys.executable, "-c", _PATIENT]

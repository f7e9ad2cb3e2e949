"""What a detached worker does first: leave the session, lower its priority, set its deadline."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress

from mindhold.hooks.environment import home

NICENESS = 10
LAST_SECONDS = 2.0  # of its time, for ending in order; after as many more it is ended by the system


def detach() -> str:
    """Leaves the session and the folder of whoever started it; the home that it works for. Raises OSError."""
    found = home()
    if hasattr(os, "setsid"):
        with suppress(OSError):  # it leads one already
            os.setsid()
    os.makedirs(found, mode=0o700, exist_ok=True)
    os.chdir(found)
    return found


def lower_priority() -> None:
    """Whoever sits at the machine comes first."""
    if hasattr(os, "nice"):
        with suppress(OSError):
            os.nice(max(0, NICENESS - os.nice(0)))


def end_at(moment: float) -> None:
    """Whatever hangs. A thread ends it where nothing else does; where there are alarms, so does the system."""
    threading.Thread(target=_end, args=(moment,), daemon=True).start()
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(0.0, moment - time.monotonic()) + LAST_SECONDS)


def _end(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
    os._exit(1)  # programs that it asked end with it: see mindhold.providers.llm.programs

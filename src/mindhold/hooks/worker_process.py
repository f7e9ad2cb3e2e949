"""The first steps of a detached worker: leave the session, lower the priority, set the deadline."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress

from mindhold.hooks.environment import home_folder

NICENESS = 10
LAST_SECONDS = 2.0  # for an orderly end; after as many more the system ends the process


def detach() -> str:
    """Leave the session and the folder of the starting process, and return the home to work for. Raises OSError."""
    folder = home_folder()
    if hasattr(os, "setsid"):
        with suppress(OSError):  # it already leads one
            os.setsid()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    os.chdir(folder)
    return folder


def lower_priority() -> None:
    """Let the user's own programs go first."""
    if hasattr(os, "nice"):
        with suppress(OSError):
            os.nice(max(0, NICENESS - os.nice(0)))


def set_deadline(moment: float) -> None:
    """End the process at that time even if it hangs: by a thread, and by an alarm where the system has them."""
    threading.Thread(target=_end, args=(moment,), daemon=True).start()
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(0.0, moment - time.monotonic()) + LAST_SECONDS)


def _end(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
    os._exit(1)  # child processes end with it: see mindhold.providers.llm.programs

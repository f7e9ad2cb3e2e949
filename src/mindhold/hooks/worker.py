"""Starts detached workers, and their first steps: leave the session, lower the priority, set the deadline."""

from __future__ import annotations

import os
import sys
import time

from mindhold.hooks.environment import home_folder, worker_environment
from mindhold.hooks.event_queue import put_event
from mindhold.hooks.lease import indexer_lock_path, take_lease, take_worker_lease

NICENESS = 10
LAST_SECONDS = 2.0  # for an orderly end; after as many more the system ends the process


def detach() -> str:
    """Leave the session and the folder of the starting process, and return the home to work for. Raises OSError."""
    folder = home_folder()
    if hasattr(os, "setsid"):
        try:
            os.setsid()
        except OSError:
            pass  # it already leads one
    os.makedirs(folder, mode=0o700, exist_ok=True)
    os.chdir(folder)
    return folder


def lower_priority() -> None:
    """Let the user's own programs go first."""
    if hasattr(os, "nice"):
        try:
            os.nice(max(0, NICENESS - os.nice(0)))
        except OSError:
            pass


def set_deadline(moment: float) -> None:
    """End the process at that time even if it hangs: by a thread, and by an alarm where the system has them."""
    import signal  # these only where a worker runs: every hook imports this module
    import threading

    threading.Thread(target=_end, args=(moment,), daemon=True).start()
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(0.0, moment - time.monotonic()) + LAST_SECONDS)


def _end(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
    os._exit(1)  # child processes end with it: see mindhold.providers.llm.programs


# -P: modules in the conversation's folder must never be imported.
_MODULE = ("-P", "-m", "mindhold")
_HOOKS, _HISTORY = "hook-worker", "history-worker"


def start_worker(home: str) -> bool:
    """Start a worker unless one holds the lease; whether it was started. Raises OSError.

    The lease is taken here and handed on, so that of a hundred concurrent hooks only one starts a worker.
    """
    return _start(home, take_worker_lease(home), _HOOKS)


def start_indexer(home: str) -> bool:
    """Start the process that indexes the conversations of this machine; whether it was started. Raises OSError.

    It ends by itself. There is at most one at a time.
    """
    os.makedirs(os.path.join(home, "data"), mode=0o700, exist_ok=True)
    return _start(home, take_lease(indexer_lock_path(home)), _HISTORY)


def _start(home: str, lease: int | None, command: str) -> bool:
    if lease is None:
        return False
    try:
        if sys.platform != "win32":
            _spawn(home, lease, command)
    finally:
        os.close(lease)
    if sys.platform == "win32":
        # A lock belongs to its process there: the first worker takes it, others end at once.
        _detach(home, command)
    return True


def start_cache_worker(home: str, agent: str = "") -> None:
    """Let a worker refresh the hook caches. Raises OSError."""
    put_event(home, {"event": "Written", "agent": agent, "folder": "", "at": time.time()})
    start_worker(home)


if sys.platform == "win32":

    def _detach(home: str, command: str) -> None:
        import subprocess

        flags = (
            subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        )
        if command == _HISTORY:
            flags |= subprocess.BELOW_NORMAL_PRIORITY_CLASS
        # Popen's destructor would warn that the worker is still running.
        subprocess.Popen(
            [sys.executable, *_MODULE, command],
            env=worker_environment(home),
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            creationflags=flags,
            close_fds=True,
        ).returncode = 0

else:

    def _spawn(home: str, lease: int, command: str) -> None:
        argv = [sys.executable, *_MODULE, command, str(lease)]
        actions: list[tuple[int, int] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)
        ]
        actions += [(os.POSIX_SPAWN_CLOSE, other) for other in _inherited_descriptors()]
        os.set_inheritable(lease, True)
        environment = worker_environment(home)
        try:
            os.posix_spawn(sys.executable, argv, environment, file_actions=actions, setsid=True)
        except NotImplementedError:  # then the worker leaves its session itself
            os.posix_spawn(sys.executable, argv, environment, file_actions=actions)

    def _inherited_descriptors() -> list[int]:
        """Descriptors that we inherited besides the standard streams: an open pipe keeps its reader waiting."""
        try:
            numbers = [int(name) for name in os.listdir("/dev/fd")]
        except (OSError, ValueError):
            return []
        return [number for number in numbers if number > 2 and _is_inheritable(number)]

    def _is_inheritable(descriptor: int) -> bool:
        try:
            return os.get_inheritable(descriptor)
        except OSError:  # that of the listing
            return False

"""Starts detached workers without a terminal, which inherit only the lease."""

from __future__ import annotations

import os
import sys
import time

from mindhold.hooks.environment import for_worker
from mindhold.hooks.event_queue import put_event
from mindhold.hooks.lease import indexer_file, take_lease, take_worker_lease

# -P: what lies in the folder of the conversation must never be taken for a module.
_MODULE = ("-P", "-m", "mindhold")
_HOOKS, _HISTORY = "hook-worker", "history-worker"


def start_worker(home: str) -> bool:
    """Unless one holds the lease; whether it was started. Raises OSError.

    The lease is taken here and handed on, so of a hundred hooks at once one starts a worker.
    """
    return _started(home, take_worker_lease(home), _HOOKS)


def start_indexer(home: str) -> bool:
    """What indexes the conversations of this machine, in its own time; whether it was started. Raises OSError.

    It ends by itself. While one is there, no other is started.
    """
    os.makedirs(os.path.join(home, "data"), mode=0o700, exist_ok=True)
    return _started(home, take_lease(indexer_file(home)), _HISTORY)


def _started(home: str, held: int | None, command: str) -> bool:
    if held is None:
        return False
    try:
        if sys.platform != "win32":
            _spawn(home, held, command)
    finally:
        os.close(held)
    if sys.platform == "win32":
        _detach(
            home, command
        )  # a lock is of its process there: the first worker takes it, others leave at once
    return True


def start_cache_worker(home: str, agent: str = "") -> None:
    """By a worker, which hears of nothing else. Raises OSError."""
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
        # Popen's object would complain at its end that the worker still runs.
        subprocess.Popen(
            [sys.executable, *_MODULE, command],
            env=for_worker(home),
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
        actions += [(os.POSIX_SPAWN_CLOSE, other) for other in _inherited()]
        os.set_inheritable(lease, True)
        environment = for_worker(home)
        try:
            os.posix_spawn(sys.executable, argv, environment, file_actions=actions, setsid=True)
        except NotImplementedError:  # the worker leaves its session itself then
            os.posix_spawn(sys.executable, argv, environment, file_actions=actions)

    def _inherited() -> list[int]:
        """What we got ourselves beside the standard streams: a pipe that stays open keeps its reader waiting."""
        try:
            numbers = [int(name) for name in os.listdir("/dev/fd")]
        except (OSError, ValueError):
            return []
        return [number for number in numbers if number > 2 and _inheritable(number)]

    def _inheritable(descriptor: int) -> bool:
        try:
            return os.get_inheritable(descriptor)
        except OSError:  # that of the listing
            return False

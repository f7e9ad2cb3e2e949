"""Starts and stops server programs: their path, a free port, and a bounded wait."""

from __future__ import annotations

import importlib.util
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

PATIENCE = 90.0  # seconds for the start or stop of a server on a busy machine

_PAUSE = 0.02
_UNASSIGNED_PORTS = (20_000, 32_000)  # Linux assigns ports from 32768 on, others from 49152 on
_TRIES = 100


class NoServer(RuntimeError):
    """The server isn't available or doesn't start; the message says what to do."""


def wheel_folder(module: str, *, install: str) -> Path:
    """The folder of a wheel's files, without importing it."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise NoServer(f"A wheel is missing. `pip install {install}` brings it.")
    return Path(spec.origin).parent


def free_port() -> int:
    """A port that nobody listens on and that no system assigns to outgoing connections.

    An outgoing connection could take an assignable port before the server does, which may be seconds later.
    """
    chance = random.SystemRandom()
    for _ in range(_TRIES):
        port = chance.randrange(*_UNASSIGNED_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise NoServer("No port of this machine is free.")


def wait_until(
    ready: Callable[[], bool], *, what: str, program: subprocess.Popen[bytes] | None, log: Path
) -> None:
    """Wait for a server, for a limited time and only while its program runs."""
    deadline = time.monotonic() + PATIENCE
    while not ready():
        ended = program is not None and program.poll() is not None
        if ended or time.monotonic() > deadline:
            log_end = log.read_text(errors="replace")[-2_000:] if log.exists() else ""
            raise NoServer(f"{what} {'ended' if ended else 'is not ready in time'}. Its log ends:\n{log_end}")
        time.sleep(_PAUSE)


def is_listening(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def stop_program(program: subprocess.Popen[bytes] | None, *, kill: bool = False) -> None:
    """Stop a program in order, or with `kill` like a power cut. Idempotent."""
    if program is None:
        return
    if program.poll() is None:
        if kill:
            program.kill()
        else:
            program.terminate()
    try:
        program.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait(PATIENCE)


class ServerProgram:
    """A server that runs as one process. As a context manager it is started and stopped."""

    _process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, and return when it is ready; does nothing if it runs. Raises NoServer."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop in order. Idempotent."""
        stop_program(self._process)
        self._process = None

    def kill(self) -> None:
        """Stop at once, like a power cut."""
        stop_program(self._process, kill=True)
        self._process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def unprivileged() -> dict[str, Any]:
    """Arguments for Popen and run: databases refuse to run as root, so there they run as nobody."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return {}
    import pwd

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def make_owned_folder(folder: Path) -> None:
    """Create the folder for the user that runs the server."""
    folder.mkdir(parents=True, exist_ok=True)
    identity = unprivileged()
    if identity and sys.platform != "win32":
        for parent in folder.absolute().parents:
            if not parent.stat().st_mode & 0o001:
                raise NoServer(
                    f"{parent} is closed to others, and a server can't run as root. Give it another folder."
                )
        os.chown(folder, identity["user"], identity["group"])
    folder.chmod(0o700)

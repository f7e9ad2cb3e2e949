"""Starts and stops server programs: their path, a free port, and a bounded wait."""

from __future__ import annotations

import importlib.util
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE = 90.0  # seconds for anything that a server does when it starts or stops; machines are busy

_PAUSE = 0.02
_NEVER_GIVEN = (20_000, 32_000)  # Linux gives ports from 32768 on, others from 49152 on
_TRIES = 100


class NoServer(RuntimeError):
    """The server can't be had or doesn't start; the message says what to do."""


def wheel_folder(module: str, *, install: str) -> Path:
    """Where a wheel's files are, without importing it."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise NoServer(f"A wheel is missing. `pip install {install}` brings it.")
    return Path(found.origin).parent


def free_port() -> int:
    """One that nobody listens on now, and that no system gives to whoever connects somewhere.

    Of those a connection might take it before the server does, which may be seconds later.
    """
    chance = random.SystemRandom()
    for _ in range(_TRIES):
        port = chance.randrange(*_NEVER_GIVEN)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise NoServer("No port of this machine is free.")


def until(
    ready: Callable[[], bool], *, what: str, program: subprocess.Popen[bytes] | None, log: Path
) -> None:
    """Wait, but not for long, and not for a program that has ended."""
    deadline = time.monotonic() + PATIENCE
    while not ready():
        ended = program is not None and program.poll() is not None
        if ended or time.monotonic() > deadline:
            said = log.read_text(errors="replace")[-2_000:] if log.exists() else ""
            raise NoServer(f"{what} {'ended' if ended else 'is not ready in time'}. Its log ends:\n{said}")
        time.sleep(_PAUSE)


def listening(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def end(program: subprocess.Popen[bytes] | None, *, kill: bool = False) -> None:
    """By asking, or with `kill` as the power goes. Idempotent."""
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


def unprivileged() -> dict[str, Any]:
    """For Popen and run: databases refuse to run as root, so there they run as nobody."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return {}
    import pwd

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def own(folder: Path) -> None:
    """Make the folder, for whoever runs the server."""
    folder.mkdir(parents=True, exist_ok=True)
    who = unprivileged()
    if who and sys.platform != "win32":
        for parent in folder.absolute().parents:
            if not parent.stat().st_mode & 0o001:
                raise NoServer(
                    f"{parent} is closed to others, and a server can't run as root. Give it another folder."
                )
        os.chown(folder, who["user"], who["group"])
    folder.chmod(0o700)


@contextmanager
def quiet_log(path: Path) -> Iterator[Any]:
    """A file for what the program prints."""
    with path.open("ab") as stream:
        yield stream

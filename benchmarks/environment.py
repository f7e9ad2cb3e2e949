"""The machine it runs on, and an environment of its own for every peer, made from a lock file."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"
RESULTS = HERE / "results"
HOME = CACHE / "home"

_CAN_LOAD = "import sqlite3, sys; sys.exit(not hasattr(sqlite3.Connection, 'enable_load_extension'))"
_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 11))"


class PeerMissing(Exception):
    """A peer can't take part; the message says why, for the table."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Something from the package index that runs in its own environment."""

    name: str
    lock: str
    loads_extensions: bool = False


CHROMA = Peer("ChromaDB", "chroma.lock")
MEMORY_SERVICE = Peer("mcp-memory-service", "memory_service.lock", loads_extensions=True)


def python_of(folder: Path) -> Path:
    """The interpreter inside a virtual environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def version_of(peer: Peer, package: str) -> str:
    """The version that the peer's lock pins."""
    for line in (HERE / "peers" / peer.lock).read_text(encoding="utf-8").splitlines():
        name, pinned, rest = line.partition("==")
        if pinned and name.partition("[")[0] == package:
            return rest.split()[0]
    return "unknown"


def prepare(peer: Peer) -> Path:
    """Make the peer's environment unless it is there already; the interpreter in it. Raises PeerMissing."""
    lock = HERE / "peers" / peer.lock
    folder = CACHE / f"env-{lock.stem}"
    stamp = folder / "made-from"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python_of(folder)
    shutil.rmtree(folder, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    _make(folder, lock, interpreter=_interpreter(peer))
    stamp.write_text(wanted, encoding="utf-8")
    return python_of(folder)


def _make(folder: Path, lock: Path, *, interpreter: str) -> None:
    # The lock is complete, so nothing is resolved: a peer's optional giants can't come in by accident.
    pinned = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", str(lock)]
    uv = shutil.which("uv")
    if uv:
        _run([uv, "venv", "--quiet", "--python", interpreter, str(folder)])
        _run([uv, "pip", "install", "--quiet", "--python", str(python_of(folder)), *pinned])
        return
    _run([interpreter, "-m", "venv", "--without-pip", str(folder)])
    pip = [sys.executable, "-m", "pip", "--python", str(python_of(folder)), "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", *pinned])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise PeerMissing(f"could not be installed ({said[-1][:160]})")


def _interpreter(peer: Peer) -> str:
    if not peer.loads_extensions:
        return sys.executable
    names = ("python3", "python3.11", "python3.12", "python3.13", "python")
    folders = os.get_exec_path()
    candidates = [sys.executable, *(str(Path(folder, name)) for folder in folders for name in names)]
    for candidate in dict.fromkeys(candidates):
        if Path(candidate).is_file() and all(_passes(candidate, test) for test in (_CAN_LOAD, _NEW_ENOUGH)):
            return candidate
    raise PeerMissing("needs a Python 3.11 or newer whose sqlite3 loads extensions; none was found")


def _passes(interpreter: str, test: str) -> bool:
    return subprocess.run([interpreter, "-c", test], capture_output=True, check=False).returncode == 0


def surroundings() -> dict[str, str]:
    """Environment variables for contestants: this machine's, with a home folder of the benchmark's own."""
    # Without byte code on disk every start would compile everything anew, which nobody's does.
    left_out = ("MINDHOLD_", "MCP_", "POSTGRES_", "DB_", "REDIS_", "MONGODB_", "PYTHONDONTWRITEBYTECODE")
    own = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    own.update(HOME=str(HOME), USERPROFILE=str(HOME), HF_HUB_OFFLINE="1")
    own.update(ANONYMIZED_TELEMETRY="False", ORT_DISABLE_TELEMETRY="1")
    return own


def machine() -> dict[str, Any]:
    """What a reader needs to judge the figures."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "load_average": None if load is None else round(load, 2),
    }


def resident(process: int) -> int:
    """Bytes of memory that a process holds now."""
    return int(psutil.Process(process).memory_info().rss)


def processor_time(process: int) -> float:
    """Milliseconds of processor time that a process has used: what remains steady when the machine is busy."""
    used = psutil.Process(process).cpu_times()
    return float(used.user + used.system) * 1e3


def family_time(process: int) -> float:
    """The same of a server with all that it has started and that still runs."""
    parent = psutil.Process(process)
    used = 0.0
    for one in (parent, *parent.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            used += processor_time(one.pid)
    return used


def size_on_disk(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())

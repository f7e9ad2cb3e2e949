"""Who takes part, and the driver's end of the pipe to each."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.environment import CHROMA, HERE, MEMORY_SERVICE, Peer, PeerMissing, prepare, surroundings


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table: a module of `peers`, in an environment, asked in a mode.

    Entries of the same `data` share one folder; the one that `fills` it loads it for all. `options` are told to it alone; `servers`
    are processes that work for it.
    """

    key: str
    label: str
    module: str
    data: str
    mode: str = ""
    peer: Peer | None = None
    fills: bool = False
    bulk: bool = False
    shares_process: str = ""
    exact: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    servers: tuple[int, ...] = ()


FLOOR = Entry("floor", "floor: embed + exact product", "floor", "floor", fills=True, bulk=True, exact=True)
OURS = Entry("mindhold", "Mindhold", "front_door", "mindhold", fills=True, bulk=True, exact=True)

ENTRIES = (
    FLOOR,
    OURS,
    Entry("chroma", "ChromaDB", "chroma", "chroma", peer=CHROMA, fills=True, bulk=True, exact=True),
    Entry(
        "chroma-held",
        "ChromaDB, embedder held",
        "chroma",
        "chroma",
        mode="held",
        peer=CHROMA,
        shares_process="chroma",
    ),
    Entry(
        "service-library",
        "mcp-memory-service, storage class",
        "memory_service",
        "memory-service",
        mode="semantic",
        peer=MEMORY_SERVICE,
        fills=True,
        bulk=True,
    ),
    Entry(
        "service",
        "mcp-memory-service, over MCP",
        "memory_service_mcp",
        "memory-service",
        mode="semantic",
        peer=MEMORY_SERVICE,
    ),
    Entry(
        "service-hybrid",
        "mcp-memory-service, over MCP, hybrid",
        "memory_service_mcp",
        "memory-service",
        mode="hybrid",
        peer=MEMORY_SERVICE,
    ),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a contestant gave, and how long it took by its own clock."""

    nanoseconds: int
    value: Any

    @property
    def milliseconds(self) -> float:
        return self.nanoseconds / 1e6


class Contestant:
    """A running contestant. Raises PeerMissing when its process ends."""

    def __init__(self, entry: Entry, folder: Path, options: dict[str, Any]) -> None:
        interpreter = prepare(entry.peer) if entry.peer else Path(sys.executable)
        self.entry = entry
        self._worker: int | None = None
        self._started = time.perf_counter_ns()
        # A file, not a pipe: nobody reads it while the contestant talks, and a full pipe would stop it.
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [
                str(interpreter),
                "-m",
                "benchmarks.peers.serve",
                entry.module,
                str(folder),
                json.dumps({**options, **entry.options}),
            ],
            cwd=HERE.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._noise,
            env=surroundings(),
            text=True,
            encoding="utf-8",
        )

    def ask(self, do: str, **details: Any) -> Answer:
        """One question, one answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **details}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerMissing(f"its process ended: {self._last_words()}")
        answer = json.loads(line)
        return Answer(answer["ns"], answer["value"])

    def recall(self, text: str, mode: str) -> Answer:
        return self.ask("recall", text=text, mode=mode)

    def first_answer(self, text: str, mode: str) -> float:
        """Milliseconds from the start of the process to its first answer."""
        self.recall(text, mode)
        return (time.perf_counter_ns() - self._started) / 1e6

    @property
    def process(self) -> int:
        """The process that does its work."""
        if self._worker is None:
            self._worker = int(self.ask("process").value)
        return self._worker

    def _last_words(self) -> str:
        self._process.wait(timeout=30)
        self._noise.seek(0)
        lines = self._noise.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:120] if lines else f"exit code {self._process.returncode}"

    def close(self) -> None:
        """End it in good order; kill it when it doesn't."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=60)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._noise.close()


class Field:
    """All contestants that run at once; those that drop out are named with the reason."""

    def __init__(self, data: Path, options: dict[str, Any], entries: Sequence[Entry] = ENTRIES) -> None:
        self.missing: dict[str, str] = {}
        self._data = data
        self._options = options
        self._entries = list(entries)
        self._running: dict[str, Contestant] = {}

    def folder(self, entry: Entry) -> Path:
        return self._data / entry.data

    def entries(self) -> list[Entry]:
        """Those still in."""
        return [entry for entry in self._entries if entry.key not in self.missing]

    def drop(self, entry: Entry, reason: PeerMissing) -> None:
        """It and all that depend on the same peer or folder are out."""
        for other in self._entries:
            if other.data == entry.data:
                self.missing.setdefault(other.key, str(reason))
        for key in [key for key in self._running if key in self.missing]:
            self._running.pop(key).close()

    def open(self, entry: Entry) -> Contestant:
        key = entry.shares_process or entry.key
        if key not in self._running:
            self._running[key] = Contestant(entry, self.folder(entry), self._options)
        return self._running[key]

    def fresh(self, entry: Entry, folder: Path) -> Contestant:
        """Another process of the same contestant, on another folder; the caller closes it."""
        return Contestant(entry, folder, self._options)

    def elsewhere(self, data: Path, entries: Sequence[Entry]) -> Field:
        """Some of them again, on other folders."""
        return Field(data, self._options, entries)

    def close(self) -> None:
        for contestant in self._running.values():
            contestant.close()
        self._running.clear()

    def __enter__(self) -> Field:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

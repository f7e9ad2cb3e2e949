"""Backups of a large store by the command line, as cron would make them: how long, how large, and how much memory they take."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from benchmarks import texts
from benchmarks.environment import CACHE, size_on_disk, surroundings
from benchmarks.peers.door import door_options, open_embedder
from benchmarks.peers.front_door import plain_puts
from benchmarks.served import MODEL, place_model, program
from benchmarks.vectors import between, stored_vectors

from mindhold.app.application import open_app
from mindhold.settings.loader import load_settings

BATCH = 5_000
REAL = 2_000  # vectors that others are mixed of
SENTENCES = 6  # of one memory: about 600 characters
LOOK_EVERY = 0.05
PASSPHRASE = "a passphrase of the benchmark"


def safekeeping(size: int) -> dict[str, Any]:
    """A store of so many bytes, backed up and restored, in clear and encrypted."""
    folder = CACHE / "safety"
    shutil.rmtree(folder, ignore_errors=True)
    home, other = folder / "home", folder / "other"
    memories = asyncio.run(_fill(home, size))
    stored = size_on_disk(home / "data")
    steps: dict[str, Any] = {}
    idle = _measured(["stats", "--json"], home)["peak"]
    for name, options in (("backup", ()), ("encrypted backup", ("--encrypt",))):
        steps[name] = _measured(["backup", *options, "--json"], home) | {"bounded": bool(options)}
        made = Path(steps[name].pop("answer")["path"])
        steps[name]["bytes"] = made.stat().st_size
        restored = _restored(made, other)
        kept = restored.pop("answer")
        if kept["memories"] != memories:
            raise SystemExit(f"{kept['memories']:,} of {memories:,} memories came back")
        steps[name.replace("backup", "restore")] = restored | {
            "bytes": made.stat().st_size,
            "bounded": bool(options),
        }
        shutil.rmtree(other, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    return {"store": stored, "memories": memories, "idle": idle, "steps": steps}


def _restored(made: Path, home: Path) -> dict[str, Any]:
    """In an empty home, as on another machine."""
    (home / "backups").mkdir(parents=True)
    for file in made.parent.glob(f"{made.name}*"):
        shutil.copy(file, home / "backups" / file.name)
    return _measured(["restore", made.name, "--yes", "--json"], home)


async def _fill(home: Path, size: int) -> int:
    """Texts of some sentences, with vectors between real ones, until the files have that size."""
    options = door_options(MODEL)
    rows = texts.memories(REAL)
    base = np.load(
        stored_vectors(CACHE, rows, model=str(options["name"]), embed=open_embedder(options).texts)
    )
    place_model(home)
    given = {"home": home, "embedding.model": MODEL, "store.durability": "normal"}
    sentences, stored = map(texts.sentence, count()), 0
    async with open_app(load_settings(given, environ={})) as app:
        while app.loaded.settings.database.stat().st_size < size:
            said = [" ".join(next(sentences) for _ in range(SENTENCES)) for _ in range(BATCH)]
            puts = plain_puts(app, said, between(base, BATCH, seed=stored))
            await app.engine.store.apply(puts)
            stored += BATCH
            print(f"\r  {stored:,} memories", end="", flush=True)
    print()
    return stored


def _measured(argv: Sequence[str], home: Path) -> dict[str, Any]:
    """One command as a process: how long it took, and the most memory that it and its children held."""
    own = {
        "MINDHOLD_HOME": str(home),
        "MINDHOLD_EMBEDDING_PROVIDER": "none",
        "MINDHOLD_BACKUP_PASSPHRASE": PASSPHRASE,
    }
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*program(), *argv], env=surroundings() | own, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    peak = [0]
    looker = threading.Thread(target=_look, args=(process.pid, peak), daemon=True)
    looker.start()
    out, err = process.communicate()
    taken = time.perf_counter() - begun
    looker.join()
    if process.returncode:
        raise SystemExit(f"mindhold {' '.join(argv)}: {err.decode()[-500:]}")
    return {"seconds": taken, "peak": peak[0], "answer": json.loads(out)}


def _look(pid: int, peak: list[int]) -> None:
    try:
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            family = [process, *process.children(recursive=True)]
            peak[0] = max(peak[0], sum(one.memory_info().rss for one in family))
            time.sleep(LOOK_EVERY)
    except psutil.NoSuchProcess:
        return

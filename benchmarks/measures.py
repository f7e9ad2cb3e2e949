"""What is measured. All contestants run at once and take turns, so that a noisy moment hits each of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.contestants import Contestant, Entry, Field
from benchmarks.environment import (
    PeerMissing,
    family_time,
    processor_time,
    resident,
    size_on_disk,
    surroundings,
)
from benchmarks.report import spread
from benchmarks.vectors import Matrix, agreement

# The threads of an inference spin on for a moment; nobody's turn begins in another's spinning.
_PAUSE = 0.02

Command = tuple[Sequence[str], Mapping[str, str]]
Figures = dict[str, dict[str, Any]]  # by the entry's key


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    memories: tuple[int, ...] = (1_000, 5_000, 10_000, 100_000)
    queries: int = 100
    stores: int = 20
    starts: int = 4
    bulk: int = 512
    bulk_of_peers: int = 64
    bulk_rounds: int = 4
    growth: tuple[int, ...] = (100_000, 300_000, 1_000_000)


QUICK = Sizes(
    memories=(1_000, 5_000),
    queries=25,
    stores=8,
    starts=2,
    bulk=256,
    bulk_of_peers=16,
    bulk_rounds=2,
    growth=(20_000, 50_000),
)


@dataclass(slots=True)
class Material:
    """Texts, their vectors, and what is asked."""

    texts: list[str]
    vectors: Path
    questions: list[str]
    fresh: Iterator[str]  # each is stored once: the second time it would be a duplicate
    folder: Path
    _files: dict[int, Path] = field(default_factory=dict)

    def file(self, count: int) -> Path:
        """The first `count` texts in a file, as contestants read them."""
        if count not in self._files:
            path = self.folder / f"texts-{count}.json"
            path.write_text(json.dumps(self.texts[:count]), encoding="utf-8")
            self._files[count] = path
        return self._files[count]


def fill(stage: Field, material: Material, *, start: int, count: int) -> Figures:
    """Load the texts from `start` to `count` with their known vectors, each by the quickest way that it has."""
    figures: Figures = {}
    for entry in stage.entries():
        if not entry.fills:
            continue
        try:
            contestant = stage.open(entry)
            details = {"texts": str(material.file(count)), "vectors": str(material.vectors), "start": start}
            answer = contestant.ask("load", **details)
        except PeerMissing as reason:
            stage.drop(entry, reason)
            continue
        figures[entry.key] = {"loaded": answer.value, "load_seconds": answer.nanoseconds / 1e9}
        print(f"  {entry.label}: {answer.value:,} in {answer.nanoseconds / 1e9:.1f} s", flush=True)
    stage.close()
    return figures


def recall(stage: Field, material: Material, *, queries: int) -> Figures:
    """Every question to every contestant in turn, the order turning too; memory and file size at the end."""
    _take_turns(stage, ["where is everything kept?", "what did we decide about tests?"])
    turns = _take_turns(stage, material.questions[:queries])
    figures: Figures = {}
    for entry in stage.entries():
        taken = turns[entry.key]
        own = spread([turn.milliseconds for turn in taken])
        own["processor"] = float(np.mean([turn.processor for turn in taken]))
        own["hits"] = float(np.mean([turn.hits for turn in taken]))
        own["resident"] = resident(stage.open(entry).process)
        own["disk"] = size_on_disk(stage.folder(entry))
        figures[entry.key] = own
    return figures


@dataclass(frozen=True, slots=True)
class _Turn:
    milliseconds: float
    processor: float
    hits: int


def _take_turns(stage: Field, questions: Sequence[str]) -> dict[str, list[_Turn]]:
    taken: dict[str, list[_Turn]] = {entry.key: [] for entry in stage.entries()}
    for number, question in enumerate(questions):
        entries = stage.entries()
        turn = number % max(len(entries), 1)
        for entry in entries[turn:] + entries[:turn]:
            time.sleep(_PAUSE)
            try:
                contestant = stage.open(entry)
                before = _used(contestant, entry)
                answer = contestant.recall(question, entry.mode)
                used = _used(contestant, entry) - before
            except PeerMissing as reason:
                stage.drop(entry, reason)
                break
            taken[entry.key].append(_Turn(answer.milliseconds, used, answer.value))
    return taken


def _used(contestant: Contestant, entry: Entry) -> float:
    return processor_time(contestant.process) + sum(map(family_time, entry.servers))


def store_one(stage: Field, material: Material, *, stores: int) -> Figures:
    """One memory at a time into a copy of the full store, each text once; the store itself stays as it is."""
    stage.close()
    copies = material.folder / "copies"
    shutil.rmtree(copies, ignore_errors=True)
    entries = [entry for entry in stage.entries() if not entry.shares_process and entry.key != "floor"]
    for data in {entry.data: stage.folder(entry) for entry in entries}.values():
        shutil.copytree(data, copies / data.name)
    samples: dict[str, list[float]] = {entry.key: [] for entry in entries}
    refused = dict.fromkeys(samples, 0)
    with stage.elsewhere(copies, entries) as side:
        for number in range(stores + 1):
            for entry in entries:
                time.sleep(_PAUSE)
                answer = side.open(entry).ask("store", text=next(material.fresh))
                if number:  # the first warms up
                    samples[entry.key].append(answer.milliseconds)
                    refused[entry.key] += not answer.value
    shutil.rmtree(copies, ignore_errors=True)
    return {key: spread(values) | {"refused": refused[key]} for key, values in samples.items()}


def exactness(stage: Field, material: Material, queries: Matrix) -> Figures:
    """Which share of the floor's ten nearest, which are exact, each finds by its vectors alone."""
    file = material.folder / "queries.npy"
    np.save(file, queries)
    found = {
        entry.key: stage.open(entry).ask("nearest", vectors=str(file))
        for entry in stage.entries()
        if entry.exact
    }
    if "floor" not in found:
        return {}
    return {
        key: {
            "of_exact": agreement(answer.value, found["floor"].value),
            "ms": answer.milliseconds / len(queries),
        }
        for key, answer in found.items()
    }


def bulk(stage: Field, material: Material, sizes: Sizes) -> Figures:
    """Texts a second with embedding, into empty stores, in rounds; the floor's figure is the bare embedder."""
    entries = [entry for entry in stage.entries() if entry.bulk]
    folder = material.folder / "bulk"
    shutil.rmtree(folder, ignore_errors=True)
    running: list[tuple[Entry, Contestant]] = [(e, stage.fresh(e, folder / e.key)) for e in entries]
    seconds: dict[str, list[float]] = {entry.key: [] for entry in entries}
    used = 0
    for number in range(sizes.bulk_rounds + 1):
        for entry, contestant in running:
            size = sizes.bulk_of_peers if entry.peer else sizes.bulk
            batch = [f"{text} (batch {number})" for text in material.texts[used : used + size]]
            answer = contestant.ask("embed" if entry.key == "floor" else "store_many", texts=batch)
            if number:  # the first round warms up
                seconds[entry.key].append(answer.nanoseconds / 1e9 / size)
        used = (used + sizes.bulk) % max(len(material.texts) - sizes.bulk, 1)
    for _, contestant in running:
        contestant.close()
    return {key: {"per_second": 1 / float(np.median(values))} for key, values in seconds.items()}


def cold_start(stage: Field, material: Material, *, starts: int, command: Command) -> Figures:
    """From nothing to the first answer, files in the disk cache; ours also as the whole command line."""
    stage.close()
    figures: Figures = {}
    programs = {
        entry.module: entry for entry in reversed(stage.entries())
    }  # modes of one program start alike
    for entry in reversed(programs.values()):
        samples = []
        for number in range(starts + 1):
            contestant = stage.fresh(entry, stage.folder(entry))
            samples.append(contestant.first_answer(material.questions[number], entry.mode))
            contestant.close()
        figures[entry.key] = spread(samples[1:])
    try:
        samples = [_command(command, material.questions[number]) for number in range(starts + 1)]
        figures["command"] = spread(samples[1:])
    except PeerMissing as reason:
        figures["command"] = {"missing": str(reason)}
    bare = [_command(([sys.executable, "-c", "import sys"], {}), "") for _ in range(starts)]
    figures["python"] = spread(bare)
    return figures


def _command(command: Command, question: str) -> float:
    program, variables = command
    started = time.perf_counter_ns()
    with tempfile.TemporaryFile() as noise:
        done = subprocess.run(
            [*program, *([question] if question else [])],
            stdout=subprocess.PIPE,
            stderr=noise,
            env=surroundings() | dict(variables),
            check=False,
        )
        if done.returncode:
            noise.seek(0)
            raise PeerMissing(noise.read().decode("utf-8", "replace")[-300:])
    return (time.perf_counter_ns() - started) / 1e6

"""Runs one contestant behind a pipe, in that contestant's own environment. Needs nothing but the standard library.

One JSON object a line in, one out: `{"do": "recall", "text": ...}` gives `{"ns": ..., "value": ...}`. The time is taken
here, around the call alone, so the pipe costs nobody anything.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol


class Contestant(Protocol):
    """What a module beside this one gives from its `open_contestant(folder, options)`."""

    def load(self, texts: Sequence[str], vectors: str, start: int) -> int:
        """Fill quickly with the texts from row `start` on, and their vectors (an .npy file). How many it took."""

    def store(self, text: str) -> bool:
        """One memory as a user would store it, embedding included. False if it was refused as a duplicate."""

    def store_many(self, texts: Sequence[str]) -> int:
        """Many at once by the quickest way that its users have, embedding included."""

    def recall(self, text: str, mode: str) -> int:
        """Ask for ten; how many came."""

    def nearest(self, vectors: str) -> list[list[int]]:
        """Row numbers of the ten nearest to each row of an .npy file, by its vector search alone."""

    def embed(self, texts: Sequence[str]) -> int:
        """The bare embedder; how many."""

    def process(self) -> int:
        """The process whose memory counts."""

    def close(self) -> None:
        """Let go of the files."""


def _act(contestant: Contestant, ask: dict[str, Any]) -> dict[str, Any]:
    verb = ask.pop("do")
    if "texts" in ask and isinstance(ask["texts"], str):
        ask["texts"] = json.loads(Path(ask["texts"]).read_text(encoding="utf-8"))
    method = getattr(contestant, verb)
    started = time.perf_counter_ns()
    value = method(**ask)
    return {"ns": time.perf_counter_ns() - started, "value": value}


def main() -> None:
    name, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    # Libraries print; the protocol keeps standard output to itself.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module = importlib.import_module(f"benchmarks.peers.{name}")
    contestant: Contestant = module.open_contestant(folder, options)
    for line in sys.stdin:
        answers.write(json.dumps(_act(contestant, json.loads(line))) + "\n")
        answers.flush()
    contestant.close()


if __name__ == "__main__":
    main()

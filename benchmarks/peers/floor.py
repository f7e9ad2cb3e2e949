"""The least that any memory must do: embed the question with the same model, one exact product, the ten best texts."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.peers.door import open_embedder


class Floor:
    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self._folder = folder
        self._embedder = open_embedder(options)
        self._matrix: Any = None
        self._texts: list[str] = []
        if (folder / "texts.json").is_file():
            self._texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
            self._matrix = np.load(folder / "matrix.npy")

    def load(self, texts: Sequence[str], vectors: str, start: int) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        np.save(self._folder / "matrix.npy", np.load(vectors, mmap_mode="r")[: len(texts)])
        (self._folder / "texts.json").write_text(json.dumps(list(texts)), encoding="utf-8")
        return len(texts) - start

    def store(self, text: str) -> bool:
        raise NotImplementedError

    def store_many(self, texts: Sequence[str]) -> int:
        raise NotImplementedError

    def recall(self, text: str, mode: str) -> int:
        return len([self._texts[row] for row in self._best(self._embedder.query(text))])

    def _best(self, vector: Any) -> list[int]:
        products = self._matrix @ vector
        best = np.argpartition(-products, 10)[:10]
        return [int(row) for row in best[np.argsort(-products[best], kind="stable")]]

    def nearest(self, vectors: str) -> list[list[int]]:
        return [self._best(vector) for vector in np.load(vectors)]

    def embed(self, texts: Sequence[str]) -> int:
        return len(self._embedder.texts(texts))

    def process(self) -> int:
        return os.getpid()

    def close(self) -> None:
        self._matrix = None


def open_contestant(folder: Path, options: dict[str, Any]) -> Floor:
    return Floor(folder, options)

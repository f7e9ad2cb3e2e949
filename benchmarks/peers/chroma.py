"""ChromaDB by its Python API, persistent, with its default embedder (and, as a second mode, with that embedder held).

Its default embedding function makes a new ONNX session on every call. Who holds the same embedder himself and passes
vectors is quicker; that is the mode "held".
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 5_000


class Chroma:
    def __init__(self, folder: Path) -> None:
        chromadb: Any = importlib.import_module("chromadb")
        functions: Any = importlib.import_module("chromadb.utils.embedding_functions")
        quiet = chromadb.Settings(anonymized_telemetry=False)
        self._client = chromadb.PersistentClient(path=str(folder), settings=quiet)
        self._collection = self._client.get_or_create_collection("memories")
        self._held = functions.ONNXMiniLM_L6_V2()
        self._stored = 0

    def load(self, texts: Sequence[str], vectors: str, start: int) -> int:
        matrix = np.load(vectors, mmap_mode="r")
        for first in range(start, len(texts), BATCH):
            last = min(first + BATCH, len(texts))
            self._collection.add(
                ids=[str(row) for row in range(first, last)],
                documents=list(texts[first:last]),
                embeddings=np.asarray(matrix[first:last]),
            )
        return len(texts) - start

    def store(self, text: str) -> bool:
        self._stored += 1
        self._collection.add(ids=[f"fresh-{os.getpid()}-{self._stored}"], documents=[text])
        return True

    def store_many(self, texts: Sequence[str]) -> int:
        self._stored += 1
        ids = [f"many-{os.getpid()}-{self._stored}-{number}" for number in range(len(texts))]
        self._collection.add(ids=ids, documents=list(texts))
        return len(texts)

    def recall(self, text: str, mode: str) -> int:
        if mode == "held":
            found = self._collection.query(query_embeddings=self._held([text]), n_results=10)
        else:
            found = self._collection.query(query_texts=[text], n_results=10)
        return len(found["ids"][0])

    def nearest(self, vectors: str) -> list[list[int]]:
        found = self._collection.query(query_embeddings=np.load(vectors), n_results=10, include=[])
        return [[int(name) for name in names if name.isdecimal()] for names in found["ids"]]

    def embed(self, texts: Sequence[str]) -> int:
        return len(self._held(list(texts)))

    def process(self) -> int:
        return os.getpid()

    def close(self) -> None:
        self._client.close()


def open_contestant(folder: Path, options: dict[str, Any]) -> Chroma:
    return Chroma(folder)

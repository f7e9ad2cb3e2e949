"""ChromaDB's own HTTP server, asked by its own client: which embeds, for the server doesn't. The embedder is held."""

from __future__ import annotations

import importlib
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 1_000
SAVED_AT_ONCE = 100
START_SECONDS = 60.0


class ChromaServer:
    def __init__(self, folder: Path) -> None:
        chromadb: Any = importlib.import_module("chromadb")
        functions: Any = importlib.import_module("chromadb.utils.embedding_functions")
        port = _free_port()
        program = Path(sys.executable).with_name("chroma")
        self._server = subprocess.Popen(
            [str(program), "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._embed = functions.ONNXMiniLM_L6_V2()
        quiet = chromadb.Settings(anonymized_telemetry=False)
        self._client = _connected(lambda: chromadb.HttpClient(host="127.0.0.1", port=port, settings=quiet))
        self._collection = self._client.get_or_create_collection("messages")
        self._saved = 0

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

    def store_many(self, texts: Sequence[str]) -> int:
        for first in range(0, len(texts), SAVED_AT_ONCE):
            lot = list(texts[first : first + SAVED_AT_ONCE])
            self._saved += len(lot)
            ids = [f"fresh-{self._saved}-{number}" for number in range(len(lot))]
            self._collection.add(ids=ids, documents=lot, embeddings=self._embed(lot))
        return len(texts)

    def crowd(self, questions: Sequence[str], clients: int, seconds: float, pause: float) -> list[float]:
        """Milliseconds of every search that so many clients made, from the text to the answer."""
        took: list[float] = []
        until = time.perf_counter() + seconds

        def one(number: int) -> None:
            draw = random.Random(number)
            while True:
                wait = draw.uniform(0, 2 * pause)
                if time.perf_counter() + wait >= until:
                    return
                time.sleep(wait)
                asked = draw.choice(questions)
                began = time.perf_counter()
                self._collection.query(query_embeddings=self._embed([asked]), n_results=20)
                took.append((time.perf_counter() - began) * 1e3)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return took

    def process(self) -> int:
        return self._server.pid

    def close(self) -> None:
        self._server.terminate()
        self._server.wait(START_SECONDS)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _connected(connect: Any) -> Any:
    limit = time.monotonic() + START_SECONDS
    while True:
        try:
            return connect()
        except Exception:  # whatever its client raises while the server isn't there yet
            if time.monotonic() > limit:
                raise
            time.sleep(0.2)


def open_contestant(folder: Path, options: dict[str, Any]) -> ChromaServer:
    return ChromaServer(folder)

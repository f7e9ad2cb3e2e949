"""Vectors of the benchmarks' texts, made once and kept; and how a million are composed from a hundred thousand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks import texts
from benchmarks.peers.door import CACHE, OWN_HOME, PRECISION, door_options, uncached_embedder

from mindhold.ports.embedder import BETWEEN_MODELS
from mindhold.providers.embedding.onnx import OnnxEmbedder
from mindhold.providers.embedding.paired import PairedEmbedder
from mindhold.providers.model_folders import MODEL_FOLDERS, model_file

Matrix = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], Matrix]

CHUNK = 1_024


def stored_vectors(folder: Path, rows: Sequence[str], *, model: str, embed: Embed) -> Path:
    """An .npy file with one unit row a text. Rows that an earlier run made are taken from the cache."""
    digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()[:12]
    name = f"{model.replace('/', '-')}-texts{texts.VERSION}"
    file = folder / f"vectors-{name}-{len(rows)}-{digest}.npy"
    if file.is_file():
        return file
    folder.mkdir(parents=True, exist_ok=True)
    known = _Known(folder / f"known-{name}")
    for start in range(0, len(rows), CHUNK):
        known.add(rows[start : start + CHUNK], embed)
        print(f"\r  embedding {min(start + CHUNK, len(rows)):,} of {len(rows):,} texts", end="", flush=True)
    print()
    np.save(file, known.rows(rows))
    return file


class _Known:
    """Chunks on disk, each under the hash of its texts, so that an interrupted run goes on where it was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._chunks: list[Matrix] = []

    def add(self, rows: Sequence[str], embed: Embed) -> None:
        file = self._folder / f"{hashlib.sha256(json.dumps(list(rows)).encode()).hexdigest()[:24]}.npy"
        if not file.is_file():
            # Texts of like length together, so that little is spent on padding.
            order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
            made = embed([rows[row] for row in order])
            matrix = np.empty_like(made)
            matrix[order] = made
            partial = file.with_suffix(".partial.npy")
            np.save(partial, matrix)
            partial.replace(file)
        self._chunks.append(np.load(file))

    def rows(self, wanted: Sequence[str]) -> Matrix:
        matrix: Matrix = np.concatenate(self._chunks)
        assert len(matrix) == len(wanted)
        return matrix


class KnownVectors:
    """Vectors of texts and questions, embedded once for all runs."""

    def __init__(
        self, embedder: OnnxEmbedder | PairedEmbedder, path: Path, *, halves: Sequence[KnownVectors] = ()
    ) -> None:
        self.embedder = embedder
        self._path = path
        self._halves = halves
        self._vectors: dict[str, Matrix] = {}
        self._added = False
        if path.is_file():
            with np.load(path) as kept:
                self._vectors = dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))

    def texts(self, texts: Sequence[str]) -> Matrix:
        """One row per stored text."""
        missing = [one for one in dict.fromkeys(texts) if _key("text", one) not in self._vectors]
        for start in range(0, len(missing), 32):
            batch = missing[start : start + 32]
            for one, vector in zip(batch, self.embedder.embed_now(batch), strict=True):
                self._add(_key("text", one), vector)
        return np.stack([self._vectors[_key("text", one)] for one in texts])

    def question(self, asked: str) -> Matrix:
        """The vector of a question."""
        key = _key("question", asked)
        if key not in self._vectors:
            self._add(key, self.embedder.embed_query_now(asked)[0])
        return self._vectors[key]

    def keep(self) -> None:
        """Write them for the next run."""
        for half in self._halves:
            half.keep()
        if self._added:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial = self._path.with_suffix(".partial.npz")
            np.savez(partial, keys=list(self._vectors), vectors=np.stack(list(self._vectors.values())))
            partial.replace(self._path)
            self._added = False

    def _add(self, key: str, vector: Matrix) -> None:
        self._vectors[key] = vector
        self._added = True


def _key(what: str, content: str) -> str:
    return hashlib.sha256(f"{what}:{content}".encode()).hexdigest()


@cache
def known_vectors(model: str) -> KnownVectors:
    """Those of an installed model, or of a pair; if its file changes, they are made anew."""
    models = model.split(BETWEEN_MODELS)
    read = [MODEL_FOLDERS.read(OWN_HOME / "models", each) for each in models]
    state = "".join(f"{each.files[model_file(PRECISION)].sha256}{each.centre}" for each in read)
    path = CACHE / "known-texts" / f"{model}-{hashlib.sha256(state.encode()).hexdigest()[:12]}.npz"
    if len(models) == 1:
        return KnownVectors(uncached_embedder(door_options(model)), path)
    pair = PairedEmbedder(*(KeptEmbedder(OWN_HOME / "models", each, precision=PRECISION) for each in models))
    return KnownVectors(pair, path, halves=[known_vectors(each) for each in models])


class KeptEmbedder(OnnxEmbedder):
    """The local embedder with the vectors of stored texts kept between runs. Questions are embedded anew: their time counts."""

    def embed_now(self, texts: Sequence[str]) -> Matrix:
        """One row per text."""
        return known_vectors(self.name.rpartition("/")[0]).texts(texts)


def between(base: Matrix, count: int, *, seed: int) -> Matrix:
    """`count` unit vectors, each between two different rows of `base`, nearer to the first.

    Points between real sentences stay where sentences are, which random ones don't: near neighbours remain near, and an
    approximate index has about the work that it has with real text.
    """
    draw = np.random.default_rng(seed)
    first = draw.integers(0, len(base), count)
    second = (first + draw.integers(1, len(base), count)) % len(base)
    weight = draw.uniform(0.15, 0.45, count).astype(np.float32)[:, None]
    mixed = (1 - weight) * base[first] + weight * base[second]
    return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), dtype=np.float32)


def agreement(answers: Sequence[Sequence[int]], exact: Sequence[Sequence[int]]) -> float:
    """Which share of the exact rows was found."""
    return float(np.mean([len(set(a) & set(e)) / len(e) for a, e in zip(answers, exact, strict=True)]))

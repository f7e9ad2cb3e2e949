"""Vectors from an embedding service: one request, and how its answer is read."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mindhold.model.errors import ModelBroken
from mindhold.ports.embedder import Matrix
from mindhold.providers.remote.line import Advice, Fault, Line, Remote, document_of

_TOO_MANY_TOKENS = 1_000_000_000  # for one call; whoever says so can't count
ADVICE = Advice(
    later="It is tried again by itself; recall goes by words meanwhile.",
    address="Correct embedding.base_url.",
    model="Check embedding.model and embedding.base_url, which usually ends in /v1.",
    call="Check embedding.model and embedding.dimensions; too long texts call for embedding.window_tokens.",
)


@dataclass(frozen=True, slots=True)
class Reply:
    """Vectors as they came, a row a text, and the tokens that the service counted; None when it didn't say."""

    vectors: Matrix
    tokens: int | None


class VectorLine(Line):
    """The line to an embedding service."""

    def __init__(self, title: str, address: str, key: str) -> None:
        super().__init__(Remote(title, address, ADVICE, key=key))
        self._title = title

    async def send(self, body: Mapping[str, Any], *, patience: float) -> Reply:
        """Raises Fault; within the patience."""
        content = await self.post(body, patience=patience)
        try:
            return parsed(content, len(body["input"]))
        except ValueError as error:
            raise Fault(
                ModelBroken(
                    f"{self._title} answers what can't be read as vectors: {error}.",
                    advice="Check embedding.base_url: it usually ends in /v1.",
                )
            ) from error


def parsed(content: bytes, count: int) -> Reply:
    """Rows in the order of the texts. Raises ValueError."""
    document = document_of(content)
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise ValueError("there is no list of data")
    rows: dict[int, npt.NDArray[np.float64]] = {}
    for place, item in enumerate(document["data"]):
        if not isinstance(item, dict):
            raise ValueError("an embedding is no object")
        index = item.get("index", place)
        if not isinstance(index, int) or not 0 <= index < count or index in rows:
            raise ValueError("an embedding has no place")
        rows[index] = _row(item.get("embedding"))
    if len(rows) != count:
        raise ValueError(f"{len(rows)} embeddings came for {count} texts")
    if len({len(row) for row in rows.values()}) > 1:
        raise ValueError("the embeddings differ in length")
    vectors = np.stack([rows[index] for index in range(count)])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or not norms.all():
        raise ValueError("an embedding has no direction")
    return Reply((vectors / norms).astype(np.float32), _tokens(document.get("usage")))


def _row(embedding: Any) -> npt.NDArray[np.float64]:
    if isinstance(embedding, str):
        try:
            raw = base64.b64decode(embedding, validate=True)
            return np.frombuffer(raw, dtype="<f4").astype(np.float64)
        except (binascii.Error, ValueError) as error:
            raise ValueError("an embedding is no base64") from error
    if not isinstance(embedding, list) or not embedding:
        raise ValueError("an embedding is no list of numbers")
    try:
        row = np.array(embedding, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError("an embedding is no list of numbers") from error
    if row.ndim != 1:
        raise ValueError("an embedding is no list of numbers")
    return row


def _tokens(usage: Any) -> int | None:
    for name in ("total_tokens", "prompt_tokens"):
        count = usage.get(name) if isinstance(usage, dict) else None
        if isinstance(count, int) and 0 < count < _TOO_MANY_TOKENS:
            return count
    return None

"""An embedding service on this machine: OpenAI's and Voyage's protocols over a real socket, and their faults."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindhold.model.tokens import count_tokens
from mindhold.ports.embedder import Matrix
from mindhold.testing.servers.faulty import Fault, FaultyService, failing

Vectors = Callable[[Sequence[str], int], Matrix]  # texts, and how long their vectors are to be
FIELDS = {
    "model",
    "input",
    "dimensions",
    "output_dimension",
    "input_type",
    "encoding_format",
    "truncation",
    "user",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came, and the key that came with it."""

    body: Mapping[str, Any]
    key: str

    @property
    def texts(self) -> list[str]:
        return list(self.body["input"])


class EmbeddingServer(FaultyService[Fault]):
    """Answers with what `vectors` makes. A `key` is wanted unless it is empty; `models` unless there are none."""

    def __init__(
        self,
        vectors: Vectors,
        *,
        key: str = "",
        dimensions: int = 1536,
        models: Sequence[str] = (),
        most_texts: int = 1_000,
        most_tokens: int = 120_000,
    ) -> None:
        super().__init__()
        self.asked: list[Asked] = []
        self._vectors = vectors
        self._key = key
        self._dimensions = dimensions
        self._models = frozenset(models)
        self._most = (most_texts, most_tokens)

    @property
    def url(self) -> str:
        """The base that clients are given."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def texts(self) -> list[str]:
        """Everything that was ever sent, in order."""
        return [text for asked in self.asked for text in asked.texts]

    def respond(self, path: str, content: bytes, headers: Mapping[str, str]) -> Fault:
        if not path.endswith("/v1/embeddings"):
            return failing(404, message="no such place")
        fault = self._next_fault()
        body = json.loads(content)
        key = headers.get("authorization", "").removeprefix("Bearer ")
        self.asked.append(Asked(body, key))
        self.reached.set()
        if fault is not None and fault.hang:
            return self._hung()
        if fault is not None and not fault.length:
            return fault
        if self._key and key != self._key:
            return failing(401, message=f"Incorrect API key provided: {key}.", code="invalid_api_key")
        wrong = self._wrong(body)
        if wrong:
            return failing(404 if wrong == "no such model" else 400, message=wrong)
        length = body.get("dimensions") or body.get("output_dimension") or self._dimensions
        return Fault(200, body=self._embedded(body, fault.length if fault else length))

    def _wrong(self, body: Mapping[str, Any]) -> str:
        texts = body.get("input")
        if set(body) - FIELDS:
            return f"unknown fields: {', '.join(sorted(set(body) - FIELDS))}"
        if self._models and body.get("model") not in self._models:
            return "no such model"
        if (
            not isinstance(texts, list)
            or not texts
            or not all(isinstance(text, str) and text for text in texts)
        ):
            return "input must be texts that are not empty"
        if len(texts) > self._most[0] or sum(map(count_tokens, texts)) > self._most[1]:
            return "too many texts or tokens"
        return ""

    def _embedded(self, body: Mapping[str, Any], length: int) -> bytes:
        texts: list[str] = body["input"]
        rows = self._vectors(texts, length).astype("<f4")
        tokens = sum(map(count_tokens, texts))
        # Backwards: the place of a vector is what its index says.
        data = [
            {"object": "embedding", "index": index, "embedding": _written(rows[index], body)}
            for index in reversed(range(len(texts)))
        ]
        usage = {"total_tokens": tokens} | ({} if "input_type" in body else {"prompt_tokens": tokens})
        return json.dumps({"object": "list", "data": data, "model": body["model"], "usage": usage}).encode()


def _written(row: Matrix, body: Mapping[str, Any]) -> Any:
    if body.get("encoding_format") == "base64":
        return base64.b64encode(row.tobytes()).decode()
    return np.asarray(row, dtype=np.float64).tolist()

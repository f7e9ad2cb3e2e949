"""A natural-language inference model on ONNX Runtime, which detects contradictions; loaded at first use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindhold.ports.llm import Judgement
from mindhold.providers.embedding.onnx import (
    batches,
    open_installed,
    open_tokenizer,
    padded_inputs,
    session_errors,
    worker_count,
)
from mindhold.providers.model_folders import CLASSIFIER_FILE, CLASSIFIER_FOLDERS, LABELS

DEFAULT_BATCH_TOKENS = 1_024
UNDECIDED = Judgement(0.25, 0.65, 0.1)  # sure of nothing

_Encoded = tuple[list[int], list[int]]  # token ids, and for each id the text (0 or 1) that it belongs to


@dataclass(frozen=True, slots=True)
class _Loaded:
    session: Any
    inputs: frozenset[str]
    tokenizer: Any
    pad: int
    limit: int  # tokens of both texts together
    order: tuple[int, ...]  # the positions of entailment, neutral and contradiction in the model's output


class OnnxClassifier:
    """An installed classifier on ONNX Runtime. Creating it reads nothing; the first call loads the model."""

    def __init__(
        self, models_dir: Path, model: str, *, threads: int = 0, batch_tokens: int = DEFAULT_BATCH_TOKENS
    ) -> None:
        self.name = model
        self._models_dir = models_dir
        self._threads = threads
        self._batch_tokens = batch_tokens
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None

    async def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """Classify each (earlier text, later text) pair. Raises ModelMissing, ModelBroken."""
        return await asyncio.to_thread(self.judge_now, pairs)

    def judge_now(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """Do the same as `judge`, in the calling thread."""
        if not pairs:
            return []
        loaded = self._load_once()
        encodings = [loaded.tokenizer.encode(old, new) for old, new in pairs]
        # A text that is longer than the limit can't be judged.
        whole = [row for row, encoding in enumerate(encodings) if len(encoding.ids) <= loaded.limit]
        judgements = [UNDECIDED] * len(pairs)
        encoded = [(list(encodings[row].ids), list(encodings[row].type_ids)) for row in whole]
        for row, judgement in zip(whole, self._judge_encoded(loaded, encoded), strict=True):
            judgements[row] = judgement
        return judgements

    def _judge_encoded(self, loaded: _Loaded, encoded: list[_Encoded]) -> list[Judgement]:
        if not encoded:
            return []
        logits = np.zeros((len(encoded), len(LABELS)))

        def fill(rows: list[int]) -> None:
            ids, types = zip(*(encoded[row] for row in rows), strict=True)
            inputs = padded_inputs(ids, types=types, names=loaded.inputs, pad=loaded.pad)
            output = loaded.session.run(None, inputs)[0]
            if output.shape != (len(rows), len(LABELS)):
                raise CLASSIFIER_FOLDERS.broken(self.name, "its answer has not the shape it should have")
            logits[rows] = output[:, loaded.order]

        row_batches = list(batches([len(ids) for ids, _ in encoded], most_tokens=self._batch_tokens))
        try:
            if len(row_batches) > 1:
                with ThreadPoolExecutor(
                    worker_count(self._threads), thread_name_prefix="mindhold-nli"
                ) as pool:
                    list(pool.map(fill, reversed(row_batches)))
            else:
                fill(row_batches[0])
        except session_errors() as error:
            raise CLASSIFIER_FOLDERS.broken(self.name, "the runtime failed on it") from error
        if not np.isfinite(logits).all():
            raise CLASSIFIER_FOLDERS.broken(self.name, "its answers are not numbers")
        probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        return [Judgement(float(row[0]), float(row[1]), float(row[2])) for row in probabilities]

    def _load_once(self) -> _Loaded:
        """Return the model, loaded once however many threads call."""
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = self._load_model()
        return self._loaded

    def _load_model(self) -> _Loaded:
        model = CLASSIFIER_FOLDERS.read(self._models_dir, self.name)
        folder = self._models_dir / self.name
        session, tokenizer_json = open_installed(CLASSIFIER_FOLDERS, folder, model, CLASSIFIER_FILE)
        tokenizer, pad = open_tokenizer(tokenizer_json)
        return _Loaded(
            session=session,
            inputs=frozenset(entry.name for entry in session.get_inputs()),
            tokenizer=tokenizer,
            pad=pad,
            limit=model.limit,
            order=tuple(model.labels.index(label) for label in LABELS),
        )

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
import numpy.typing as npt

from mindhold.ports.llm import Judgement
from mindhold.providers.embedding.onnx import batches, open_session, session_errors, worker_count
from mindhold.providers.model_folders import (
    CLASSIFIER_FILE,
    CLASSIFIER_FOLDERS,
    LABELS,
    TOKENIZER_FILE,
    InstalledClassifier,
    sha256_of,
)

DEFAULT_BATCH_TOKENS = 1_024
UNDECIDED = Judgement(0.25, 0.65, 0.1)  # sure of nothing

Numbers = npt.NDArray[np.float64]
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
        self._models_dir = models_dir
        self._model = model
        self._threads = threads
        self._batch_tokens = batch_tokens
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None

    @property
    def name(self) -> str:
        return self._model

    async def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """Classify each (earlier text, later text) pair. Raises ModelMissing, ModelBroken."""
        return await asyncio.to_thread(self.judge_now, pairs)

    def judge_now(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """Do the same as `judge`, in the calling thread."""
        if not pairs:
            return []
        loaded = self._load_once()
        encodings = [self._encode(loaded, old, new) for old, new in pairs]
        # A text that is longer than the limit can't be judged.
        whole = [row for row, (ids, _) in enumerate(encodings) if len(ids) <= loaded.limit]
        judgements = [UNDECIDED] * len(pairs)
        for row, judgement in zip(
            whole, self._judge_encoded(loaded, [encodings[row] for row in whole]), strict=True
        ):
            judgements[row] = judgement
        return judgements

    def _judge_encoded(self, loaded: _Loaded, encoded: list[_Encoded]) -> list[Judgement]:
        if not encoded:
            return []
        logits = np.zeros((len(encoded), len(LABELS)))

        def fill(rows: list[int]) -> None:
            output = loaded.session.run(None, _inputs(loaded, [encoded[row] for row in rows]))[0]
            if output.shape != (len(rows), len(LABELS)):
                raise CLASSIFIER_FOLDERS.broken(self._model, "its answer has not the shape it should have")
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
            raise CLASSIFIER_FOLDERS.broken(self._model, "the runtime failed on it") from error
        return self._to_judgements(logits)

    def _to_judgements(self, logits: Numbers) -> list[Judgement]:
        if not np.isfinite(logits).all():
            raise CLASSIFIER_FOLDERS.broken(self._model, "its answers are not numbers")
        probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        return [Judgement(float(row[0]), float(row[1]), float(row[2])) for row in probabilities]

    @staticmethod
    def _encode(loaded: _Loaded, old: str, new: str) -> _Encoded:
        encoding = loaded.tokenizer.encode(old, new)
        return list(encoding.ids), list(encoding.type_ids)

    def _load_once(self) -> _Loaded:
        """Return the model, loaded once however many threads call."""
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    model = CLASSIFIER_FOLDERS.read(self._models_dir, self._model)
                    CLASSIFIER_FOLDERS.check_sizes(self._models_dir / self._model, model)
                    self._loaded = load(self._models_dir / self._model, model)
        return self._loaded


def load(folder: Path, model: InstalledClassifier) -> _Loaded:
    """Open the model's session and its tokenizer. Raises ModelBroken."""
    from tokenizers import Tokenizer

    try:
        session = open_session(folder / CLASSIFIER_FILE)
    except session_errors() as error:
        raise CLASSIFIER_FOLDERS.broken(model.name, "the runtime can't open it") from error
    if sha256_of(folder / TOKENIZER_FILE) != model.files[TOKENIZER_FILE].sha256:
        raise CLASSIFIER_FOLDERS.broken(model.name, f"{TOKENIZER_FILE} has changed since it was made")
    tokenizer = Tokenizer.from_str((folder / TOKENIZER_FILE).read_text(encoding="utf-8"))
    pad = int((tokenizer.padding or {}).get("pad_id", 0))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _Loaded(
        session=session,
        inputs=frozenset(entry.name for entry in session.get_inputs()),
        tokenizer=tokenizer,
        pad=pad,
        limit=model.limit,
        order=tuple(model.labels.index(label) for label in LABELS),
    )


def _inputs(loaded: _Loaded, rows: Sequence[_Encoded]) -> dict[str, npt.NDArray[np.int64]]:
    """Build the graph's inputs, padded to the longest row."""
    width = max(len(ids) for ids, _ in rows)
    ids = np.full((len(rows), width), loaded.pad, dtype=np.int64)
    mask = np.zeros_like(ids)
    types = np.zeros_like(ids)
    for row, (row_ids, row_types) in enumerate(rows):
        ids[row, : len(row_ids)] = row_ids
        mask[row, : len(row_ids)] = 1
        types[row, : len(row_ids)] = row_types
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    return {name: values for name, values in inputs.items() if name in loaded.inputs}

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
from mindhold.providers.embedding.onnx import batches, open_session, session_errors, workers
from mindhold.providers.model_folders import (
    CLASSIFIERS,
    LABELS,
    MODEL,
    TOKENIZER,
    InstalledClassifier,
    sha256_of,
)

DEFAULT_BATCH_TOKENS = 1_024
NEITHER = Judgement(0.25, 0.65, 0.1)  # sure of nothing

Numbers = npt.NDArray[np.float64]
_Encoded = tuple[list[int], list[int]]  # ids, and which of the two texts each belongs to


@dataclass(frozen=True, slots=True)
class _Loaded:
    session: Any
    inputs: frozenset[str]
    tokenizer: Any
    pad: int
    limit: int  # tokens of both texts together
    order: tuple[int, ...]  # where the model puts entailment, neutral, contradiction


class OnnxClassifier:
    """An installed classifier. Making one touches nothing; the first pair loads it."""

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
        """Raises ModelMissing, ModelBroken."""
        return await asyncio.to_thread(self.judge_now, pairs)

    def judge_now(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """`judge`, in the calling thread."""
        if not pairs:
            return []
        loaded = self._ready()
        found = [self._encode(loaded, old, new) for old, new in pairs]
        # Of a text that it can't read to the end it can't say what is in it.
        whole = [place for place, (ids, _) in enumerate(found) if len(ids) <= loaded.limit]
        judgements = [NEITHER] * len(pairs)
        for place, one in zip(whole, self._judged(loaded, [found[place] for place in whole]), strict=True):
            judgements[place] = one
        return judgements

    def _judged(self, loaded: _Loaded, encoded: list[_Encoded]) -> list[Judgement]:
        if not encoded:
            return []
        logits = np.zeros((len(encoded), len(LABELS)))

        def fill(rows: list[int]) -> None:
            answer = loaded.session.run(None, _inputs(loaded, [encoded[row] for row in rows]))[0]
            if answer.shape != (len(rows), len(LABELS)):
                raise CLASSIFIERS.broken(self._model, "its answer has not the shape it should have")
            logits[rows] = answer[:, loaded.order]

        chosen = list(batches([len(ids) for ids, _ in encoded], most_tokens=self._batch_tokens))
        try:
            if len(chosen) > 1:
                with ThreadPoolExecutor(workers(self._threads), thread_name_prefix="mindhold-nli") as pool:
                    list(pool.map(fill, reversed(chosen)))
            else:
                fill(chosen[0])
        except session_errors() as error:
            raise CLASSIFIERS.broken(self._model, "the runtime failed on it") from error
        return self._judgements(logits)

    def _judgements(self, logits: Numbers) -> list[Judgement]:
        if not np.isfinite(logits).all():
            raise CLASSIFIERS.broken(self._model, "its answers are not numbers")
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return [Judgement(float(row[0]), float(row[1]), float(row[2])) for row in shares]

    @staticmethod
    def _encode(loaded: _Loaded, old: str, new: str) -> _Encoded:
        encoding = loaded.tokenizer.encode(old, new)
        return list(encoding.ids), list(encoding.type_ids)

    def _ready(self) -> _Loaded:
        """The model, loaded once however many threads ask."""
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    model = CLASSIFIERS.read(self._models_dir, self._model)
                    CLASSIFIERS.check_sizes(self._models_dir / self._model, model)
                    self._loaded = load(self._models_dir / self._model, model)
        return self._loaded


def load(folder: Path, model: InstalledClassifier) -> _Loaded:
    """A session and its tokenizer. Raises ModelBroken."""
    from tokenizers import Tokenizer

    try:
        session = open_session(folder / MODEL)
    except session_errors() as error:
        raise CLASSIFIERS.broken(model.name, "the runtime can't open it") from error
    if sha256_of(folder / TOKENIZER) != model.files[TOKENIZER].sha256:
        raise CLASSIFIERS.broken(model.name, f"{TOKENIZER} has changed since it was made")
    tokenizer = Tokenizer.from_str((folder / TOKENIZER).read_text(encoding="utf-8"))
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
    """Padded to the longest. Only the inputs that the graph has."""
    width = max(len(ids) for ids, _ in rows)
    ids = np.full((len(rows), width), loaded.pad, dtype=np.int64)
    mask = np.zeros_like(ids)
    types = np.zeros_like(ids)
    for row, (own, kinds) in enumerate(rows):
        ids[row, : len(own)] = own
        mask[row, : len(own)] = 1
        types[row, : len(own)] = kinds
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    return {name: values for name, values in inputs.items() if name in loaded.inputs}

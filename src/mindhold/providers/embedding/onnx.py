"""The local embedder: a tokenizer and ONNX Runtime, loaded at first use."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindhold.hooks.environment import silence_runtime
from mindhold.model.errors import ModelMissing
from mindhold.model.ranking import Cosines
from mindhold.ports.embedder import Matrix
from mindhold.providers.embedding.base import combine_windows, windows, without_centre
from mindhold.providers.embedding.unigram import UnigramTokenizer, is_unigram
from mindhold.providers.model_folders import (
    MODEL_FOLDERS,
    TOKENIZER_FILE,
    InstalledModel,
    Manifest,
    ModelFolders,
    model_file,
    sha256_of,
)

# The runtime's own names; the installed package decides which of them it offers.
GPU_PROVIDERS = (
    "CUDAExecutionProvider",
    "ROCMExecutionProvider",
    "DmlExecutionProvider",
    "CoreMLExecutionProvider",
)
CPU_PROVIDER = "CPUExecutionProvider"
SHORTEST_WORD = 3  # letters
_MAX_THREADS = 4
_LOG_ERRORS_ONLY = 3


def worker_count(threads: int) -> int:
    """Return how many batches run at once; 0 threads means as many as pay off.

    In a container a process may use fewer cores than the machine has.
    """
    if threads:
        return threads
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_MAX_THREADS, cores)


def execution_providers(device: str, offered: Sequence[str]) -> list[str]:
    """List the execution providers in order of preference; the last one supports every operator."""
    gpu_providers = [name for name in GPU_PROVIDERS if name in offered] if device == "gpu" else []
    return [*gpu_providers[:1], CPU_PROVIDER]


def runtime() -> Any:
    """Import ONNX Runtime with telemetry switched off; nothing else imports it."""
    silence_runtime()
    import onnxruntime

    onnxruntime.disable_telemetry_events()  # versions before 1.29 don't know the variable
    return onnxruntime


def open_session(model: Path | bytes, *, device: str = "cpu") -> Any:
    """Open a session that computes in the calling thread.

    Threads inside one inference wait for each other at every layer; batches in parallel don't. One short text is faster
    with one thread too.
    """
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _LOG_ERRORS_ONLY
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # Every batch has another shape: a planned arena would only keep the largest one allocated.
    options.enable_mem_pattern = False
    options.enable_cpu_mem_arena = False
    source = model if isinstance(model, bytes) else str(model)
    providers = execution_providers(device, onnxruntime.get_available_providers())
    return onnxruntime.InferenceSession(source, options, providers=providers)


def session_errors() -> tuple[type[Exception], ...]:
    """Return the errors that the runtime raises for a file that it can't use."""
    state = runtime().capi.onnxruntime_pybind11_state
    return (
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.InvalidProtobuf,
        state.NoSuchFile,
        state.NotImplemented,
        state.RuntimeException,
    )


def open_installed(
    folders: ModelFolders[Any], folder: Path, model: Manifest, file: str, *, device: str = "cpu"
) -> tuple[Any, str]:
    """Check an installed model's files; return a session of one of them, and its tokenizer.json. Raises ModelBroken."""
    folders.check_sizes(folder, model)
    tokenizer = folder / TOKENIZER_FILE
    if sha256_of(tokenizer) != model.files[TOKENIZER_FILE].sha256:
        raise folders.broken(model.name, f"{TOKENIZER_FILE} has changed since it was made")
    try:
        session = open_session(folder / file, device=device)
    except session_errors() as error:
        raise folders.broken(model.name, "the runtime can't open it") from error
    return session, tokenizer.read_text(encoding="utf-8")


Inputs = dict[str, npt.NDArray[np.int64]]


def open_tokenizer(tokenizer_json: str) -> tuple[Any, int]:
    """Open a tokenizer.json without its saved padding and truncation, and return the id that it pads with."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tokenizer_json)
    pad = int((tokenizer.padding or {}).get("pad_id", 0))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, pad


def _is_word(piece: str) -> bool:
    return len(piece) >= SHORTEST_WORD and piece.isalpha() and piece.isascii()


class _LibraryTokenizer:
    """A published tokenizer.json, and the ids that it puts around a text."""

    def __init__(self, tokenizer_json: str) -> None:
        self._tokenizer, self.pad = open_tokenizer(tokenizer_json)
        frame = self._tokenizer.encode("a")
        special = frame.special_tokens_mask
        first = special.index(0) if 0 in special else len(special)
        last = len(special) - special[::-1].index(0) if 0 in special else len(special)
        self.prefix_ids, self.suffix_ids = tuple(frame.ids[:first]), tuple(frame.ids[last:])

    def words(self) -> list[str]:
        """The pieces that are whole words, the most common first, as vocabularies of this kind are sorted."""
        vocabulary: dict[str, int] = self._tokenizer.get_vocab()
        return sorted(filter(_is_word, vocabulary), key=vocabulary.__getitem__)

    def encode(self, text: str) -> list[int]:
        # encode_batch would start a thread pool that warns in forked children.
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


class TextEncoder:
    """A tokenizer.json that splits long texts into windows."""

    def __init__(self, tokenizer_json: str, *, limit: int) -> None:
        tokenizer = (UnigramTokenizer if is_unigram(tokenizer_json) else _LibraryTokenizer)(tokenizer_json)
        self._tokenizer = tokenizer
        self._encode_ids, self.pad = tokenizer.encode, tokenizer.pad
        self._prefix_ids, self._suffix_ids = tokenizer.prefix_ids, tokenizer.suffix_ids
        self._window_size = max(1, limit - len(self._prefix_ids) - len(self._suffix_ids))

    def words(self, most: int) -> list[str]:
        """The most common whole words that are one piece."""
        return self._tokenizer.words()[:most]

    def encode(self, text: str) -> list[list[int]]:
        """Return the ids of the text's windows, each framed by the model's special tokens; one window if it is short."""
        ids = self._encode_ids(text)
        return [[*self._prefix_ids, *window, *self._suffix_ids] for window in windows(ids, self._window_size)]


def padded_inputs(
    encoded: Sequence[Sequence[int]],
    *,
    types: Sequence[Sequence[int]] | None = None,
    names: Container[str],
    pad: int,
) -> Inputs:
    """Build the graph's inputs, padded to the longest row; `types` says for each id to which text it belongs."""
    lengths = np.array([len(ids) for ids in encoded])
    mask = np.arange(lengths.max()) < lengths[:, None]

    def fill(rows: Sequence[Sequence[int]], rest: int) -> npt.NDArray[np.int64]:
        values = np.full(mask.shape, rest, dtype=np.int64)
        values[mask] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
        return values

    inputs = {
        "input_ids": fill(encoded, pad),
        "attention_mask": mask.astype(np.int64),
        "token_type_ids": fill(types, 0) if types else np.zeros(mask.shape, dtype=np.int64),
    }
    return {name: values for name, values in inputs.items() if name in names}


# Larger batches don't fit the processor's cache and only cost memory.
MOST_BATCH_TOKENS = 512


@dataclass(frozen=True, slots=True)
class _Loaded:
    session: Any
    inputs: frozenset[str]
    encoder: TextEncoder
    model: InstalledModel
    centre: Matrix


class OnnxEmbedder:
    """An installed model on ONNX Runtime. Creating it reads nothing; the first text loads the model."""

    def __init__(
        self,
        models_dir: Path,
        model: str,
        *,
        precision: str = "int8",
        threads: int = 0,
        device: str = "cpu",
    ) -> None:
        self.name = f"{model}/{precision}"
        self._models_dir = models_dir
        self._model = model
        self._precision = precision
        self._threads = threads
        self._device = device
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._dimensions = 0

    @property
    def dimensions(self) -> int:
        if not self._dimensions:
            self._dimensions = MODEL_FOLDERS.read(self._models_dir, self._model).dimensions
        return self._dimensions

    @property
    def unrelated(self) -> Cosines:
        return self._load_once().model.unrelated

    async def embed(self, texts: Sequence[str]) -> Matrix:
        return await asyncio.to_thread(self.embed_now, texts)

    async def embed_query(self, text: str) -> Matrix:
        return await asyncio.to_thread(self.embed_query_now, text)

    def embed_now(self, texts: Sequence[str]) -> Matrix:
        """Do the same as `embed`, in the calling thread."""
        loaded = self._load_once()
        return self._run(loaded, [loaded.model.text_prefix + text for text in texts])

    def embed_query_now(self, text: str) -> Matrix:
        """Do the same as `embed_query`, in the calling thread."""
        loaded = self._load_once()
        return self._run(loaded, [loaded.model.query_prefix + text])

    def load(self) -> None:
        """Load the model ahead of its first use. Raises ModelMissing, ModelBroken."""
        self._load_once()

    def words(self, most: int) -> Sequence[str]:
        return self._load_once().encoder.words(most)

    async def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown)

    def _thread_pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(
                    worker_count(self._threads), thread_name_prefix="mindhold-embed"
                )
            return self._pool

    def _load_once(self) -> _Loaded:
        """Return the model, loaded once however many threads call."""
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = self._load_model()
        return self._loaded

    def _load_model(self) -> _Loaded:
        model = MODEL_FOLDERS.read(self._models_dir, self._model)
        if self._precision not in model.precisions:
            raise ModelMissing(
                f"The model {self._model!r} is not installed in {self._precision}.",
                advice=f"`mindhold models pull {self._model} --precision {self._precision}` makes it.",
            )
        session, tokenizer = open_installed(
            MODEL_FOLDERS,
            self._models_dir / self._model,
            model,
            model_file(self._precision),
            device=self._device,
        )
        return _Loaded(
            session=session,
            inputs=frozenset(entry.name for entry in session.get_inputs()),
            encoder=TextEncoder(tokenizer, limit=model.limit),
            model=model,
            centre=np.asarray(model.centre, dtype=np.float32),
        )

    def _run(self, loaded: _Loaded, texts: Sequence[str]) -> Matrix:
        encoded = [loaded.encoder.encode(text) for text in texts]
        windows = [window for parts in encoded for window in parts]
        vectors = np.zeros((len(windows), loaded.model.dimensions), dtype=np.float32)

        def fill(rows: list[int]) -> None:
            inputs = padded_inputs(
                [windows[row] for row in rows], names=loaded.inputs, pad=loaded.encoder.pad
            )
            vectors[rows] = loaded.session.run(None, inputs)[0]

        row_batches = list(batches([len(window) for window in windows], most_tokens=MOST_BATCH_TOKENS))
        try:
            # The longest first, so that no thread is left with it at the end.
            list(
                self._thread_pool().map(fill, reversed(row_batches))
                if len(row_batches) > 1
                else map(fill, row_batches)
            )
        except session_errors() as error:
            raise MODEL_FOLDERS.broken(self._model, "the runtime failed on it") from error
        if not np.isfinite(vectors).all():
            raise MODEL_FOLDERS.broken(self._model, "its vectors are not numbers")
        combined = combine_windows(vectors, [[len(window) for window in parts] for parts in encoded])
        return without_centre(combined, loaded.centre)


def batches(lengths: Sequence[int], *, most_tokens: int) -> Iterator[list[int]]:
    """Group rows of similar length into batches; each stays within `most_tokens` after padding."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > most_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch

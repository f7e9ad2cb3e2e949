"""Embedding services on the network: OpenAI, Voyage and compatible ones, with their models, requests and answers."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mindhold.model.errors import ModelAway, ModelBroken, ModelMismatch, SettingsError
from mindhold.model.ranking import Cosines
from mindhold.model.tokens import count_tokens
from mindhold.ports.embedder import Matrix, ServiceLedger, ServiceModelTraits, Usage
from mindhold.providers.embedding.base import (
    UNRELATED_QUESTIONS,
    UNRELATED_STATEMENTS,
    combine_windows,
    measure_unrelated,
    windows,
)
from mindhold.providers.remote_service import (
    LONGEST_HOLD,
    Advice,
    Circuit,
    RateLimiter,
    RemoteService,
    ServiceConnection,
    ServiceFault,
    Timing,
    encodable,
    parse_json,
    with_retries,
)


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """The fields of a request besides the model and the texts."""

    size: str = "dimensions"  # name of the field that requests a vector length
    fixed: Mapping[str, Any] = field(default_factory=dict)  # in every request
    text: Mapping[str, Any] = field(default_factory=dict)
    question: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """The limits of one model. Tokens are counted by cl100k_base, with a margin for services that count otherwise."""

    dimensions: int = 0  # the model's own; 0: unknown until the first call
    sizes: tuple[int, ...] = ()  # lengths that can be requested; empty: any up to its own
    window: int = 400  # most tokens of one text
    batch_tokens: int = 16_000
    price: float | None = None  # dollars a million tokens


@dataclass(frozen=True, slots=True)
class EmbeddingProvider:
    """A service, or a kind of service."""

    title: str
    address: str  # empty: the user must set it
    usual: str  # default model; empty: the user must name one
    request_format: RequestFormat
    most_texts: int
    models: Mapping[str, ServiceModel] = field(default_factory=dict)
    other: ServiceModel = field(default_factory=ServiceModel)

    def model(self, name: str) -> ServiceModel:
        """Return the limits of a model; cautious ones for an unknown model."""
        return self.models.get(name, self.other)


def _openai(dimensions: int, price: float, *, sizes: tuple[int, ...] = ()) -> ServiceModel:
    return ServiceModel(dimensions, sizes=sizes, window=8_000, batch_tokens=280_000, price=price)


def _voyage(batch_tokens: int, price: float) -> ServiceModel:
    sizes = (256, 512, 1024, 2048)
    return ServiceModel(1024, sizes=sizes, window=16_000, batch_tokens=batch_tokens, price=price)


OPENAI = EmbeddingProvider(
    title="OpenAI",
    address="https://api.openai.com/v1",
    usual="text-embedding-3-small",
    request_format=RequestFormat(fixed={"encoding_format": "base64"}),
    most_texts=2_048,
    models={
        "text-embedding-3-small": _openai(1536, 0.02),
        "text-embedding-3-large": _openai(3072, 0.13),
        "text-embedding-ada-002": _openai(1536, 0.10, sizes=(1536,)),
    },
    other=ServiceModel(window=8_000, batch_tokens=280_000),
)

VOYAGE = EmbeddingProvider(
    title="Voyage",
    address="https://api.voyageai.com/v1",
    usual="voyage-3-large",
    request_format=RequestFormat(
        size="output_dimension",
        fixed={"encoding_format": "base64"},
        text={"input_type": "document"},
        question={"input_type": "query"},
    ),
    most_texts=1_000,
    models={
        "voyage-3-large": _voyage(75_000, 0.18),
        "voyage-3.5": _voyage(200_000, 0.06),
        "voyage-3.5-lite": _voyage(600_000, 0.02),
        "voyage-code-3": _voyage(75_000, 0.18),
        "voyage-4-large": _voyage(75_000, 0.12),
        "voyage-4": _voyage(200_000, 0.06),
        "voyage-4-lite": _voyage(600_000, 0.02),
    },
    other=ServiceModel(window=2_500, batch_tokens=75_000),
)

COMPATIBLE = EmbeddingProvider(
    title="The embedding service",
    address="",
    usual="",
    request_format=RequestFormat(),
    most_texts=2_048,
    other=ServiceModel(),  # it may be paid or free
)

PROVIDERS: Mapping[str, EmbeddingProvider] = {"openai": OPENAI, "voyage": VOYAGE, "compatible": COMPATIBLE}


def requested_size(model: ServiceModel, name: str, wanted: int) -> int:
    """Return the vector length to request; 0 leaves it to the service. Raises SettingsError for a length the model lacks."""
    if not wanted or not model.dimensions or wanted == model.dimensions:
        return 0 if wanted == model.dimensions else wanted
    sizes = model.sizes or (model.dimensions,)
    if wanted not in sizes if model.sizes else wanted > model.dimensions:
        lengths = ", ".join(f"{size:,}" for size in sizes) if model.sizes else f"at most {model.dimensions:,}"
        raise SettingsError(
            f"embedding.dimensions is {wanted:,}, and vectors of {name} have {lengths}.",
            advice="Correct it; 0 takes the model's own.",
        )
    return wanted


_TOO_MANY_TOKENS = 1_000_000_000  # in one call: a larger count is an error of the service
ADVICE = Advice(
    later="It is tried again by itself; recall goes by words meanwhile.",
    address="Correct embedding.base_url.",
    model="Check embedding.model and embedding.base_url, which usually ends in /v1.",
    call="Check embedding.model and embedding.dimensions; too long texts call for embedding.window_tokens.",
)


@dataclass(frozen=True, slots=True)
class EmbeddingReply:
    """The vectors, one row a text, and the tokens that the service counted; None when it didn't say."""

    vectors: Matrix
    tokens: int | None


def parse_reply(content: bytes, count: int) -> EmbeddingReply:
    """Parse an answer into rows in the order of the texts. Raises ValueError."""
    document = parse_json(content)
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise ValueError("there is no list of data")
    rows: dict[int, npt.NDArray[np.float64]] = {}
    for position, item in enumerate(document["data"]):
        if not isinstance(item, dict):
            raise ValueError("an embedding is no object")
        index = item.get("index", position)
        if not isinstance(index, int) or not 0 <= index < count or index in rows:
            raise ValueError("an embedding has no place")
        rows[index] = _parse_embedding(item.get("embedding"))
    if len(rows) != count:
        raise ValueError(f"{len(rows)} embeddings came for {count} texts")
    if len({len(row) for row in rows.values()}) > 1:
        raise ValueError("the embeddings differ in length")
    vectors = np.stack([rows[index] for index in range(count)])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or not norms.all():
        raise ValueError("an embedding has no direction")
    return EmbeddingReply((vectors / norms).astype(np.float32), _parse_token_count(document.get("usage")))


def _parse_embedding(embedding: Any) -> npt.NDArray[np.float64]:
    if isinstance(embedding, str):
        try:
            raw = base64.b64decode(embedding, validate=True)
            return np.frombuffer(raw, dtype="<f4").astype(np.float64)
        except (binascii.Error, ValueError) as error:
            raise ValueError("an embedding is no base64") from error
    try:
        row = np.array(embedding, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError("an embedding is no list of numbers") from error
    if not isinstance(embedding, list) or row.ndim != 1 or not row.size:
        raise ValueError("an embedding is no list of numbers")
    return row


def _parse_token_count(usage: Any) -> int | None:
    for name in ("total_tokens", "prompt_tokens"):
        count = usage.get(name) if isinstance(usage, dict) else None
        if isinstance(count, int) and 0 < count < _TOO_MANY_TOKENS:
            return count
    return None


QUESTION_ATTEMPTS = 2
TEXT_ATTEMPTS = 4
QUESTION_SECONDS = 5.0  # the longest wait of a question, which full text can answer as well
BLANK_TEXT = "."  # services accept no empty text
# Used for a model that another process has measured, until this process reads the measurement.
DEFAULT_UNRELATED = Cosines(0.2, 0.1)


@dataclass(frozen=True, slots=True)
class Service:
    """One model of one service, and how to call it."""

    provider: str
    title: str
    model: str
    address: str
    request_format: RequestFormat
    key: str = field(default="", repr=False)
    size: int = 0  # requested length; 0 leaves it to the service
    dimensions: int = 0  # expected length; 0 until the first call

    @property
    def name(self) -> str:
        """The name that its vectors are stored under; another length counts as another model."""
        length = self.size or self.dimensions
        return f"{self.provider}:{self.model}/{length}" if length else f"{self.provider}:{self.model}"

    def body(self, texts: Sequence[str], *, question: bool) -> dict[str, Any]:
        """Build the body of a request."""
        size = {self.request_format.size: self.size} if self.size else {}
        kind = self.request_format.question if question else self.request_format.text
        return {"model": self.model, "input": list(texts), **size, **kind, **self.request_format.fixed}


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of one batch, of the rate and of the wait. Tokens are cl100k_base's."""

    batch: int = 128
    batch_tokens: int = 16_000
    window: int = 400
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    wait_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class TextWindow:
    """A text, or a window of a long one."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class _AskMode:
    """Whether texts are questions, and the deadline if somebody waits for the answer."""

    question: bool
    until: float | None = None


_TEXT_MODE = _AskMode(question=False)


class ServiceEmbedder:
    """An embedder that calls a service. Creating it sends nothing; the first text also measures the model, if nobody did."""

    def __init__(
        self,
        service: Service,
        ledger: ServiceLedger,
        *,
        limits: BatchLimits | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.name = service.name
        self._service = service
        self._ledger = ledger
        self._limits = limits or BatchLimits()
        self._timing = timing or Timing()
        remote = RemoteService(service.title, service.address, ADVICE, key=service.key)
        self._connection = ServiceConnection(remote)
        self._circuit = Circuit(self._timing)
        self._rate_limiter = RateLimiter(
            self._limits.requests_per_minute,
            self._limits.tokens_per_minute,
            self._timing,
            section="embedding",
        )
        self._traits: ServiceModelTraits | None = None
        self._measure_lock = asyncio.Lock()

    @property
    def dimensions(self) -> int:
        length = self._vector_length()
        if not length:
            raise ModelAway(
                f"{self._service.title} was not asked yet how long its vectors are.",
                advice="embedding.dimensions can say it.",
            )
        return length

    @property
    def unrelated(self) -> Cosines:
        return self._traits.unrelated if self._traits else DEFAULT_UNRELATED

    def load(self) -> None:
        self._connection.load()
        count_tokens(BLANK_TEXT)

    async def close(self) -> None:
        await self._connection.close()

    def words(self, most: int) -> Sequence[str]:
        return ()

    async def load_traits(self) -> None:
        """Read what was measured before, so that it is available before the first text. Calls no service."""
        self._traits = self._traits or await self._ledger.traits()

    async def embed(self, texts: Sequence[str]) -> Matrix:
        if not texts:
            return np.zeros((0, self._vector_length()), dtype=np.float32)
        await self._ensure_measured(_TEXT_MODE)
        return await self._vectors(texts, _TEXT_MODE)

    async def embed_query(self, text: str) -> Matrix:
        until = self._timing.now() + min(self._limits.wait_seconds, QUESTION_SECONDS)
        mode = _AskMode(question=True, until=until)
        await self._ensure_measured(mode)
        return await self._vectors([text], mode)

    def _vector_length(self) -> int:
        if self._traits:
            return self._traits.dimensions
        return self._service.size or self._service.dimensions

    async def _ensure_measured(self, mode: _AskMode) -> None:
        if self._traits is not None:
            return
        try:
            async with asyncio.timeout(None if mode.until is None else mode.until - self._timing.now()):
                await self._measure_lock.acquire()
        except TimeoutError as error:
            raise self._timeout_error() from error
        try:
            await self.load_traits()
            if self._traits is None:
                self._traits = await self._measure(mode)
                await self._ledger.keep_traits(self._traits)
        finally:
            self._measure_lock.release()

    async def _measure(self, mode: _AskMode) -> ServiceModelTraits:
        """Measure the length of the vectors and the similarity of unrelated texts."""
        request_format = self._service.request_format
        if request_format.question == request_format.text:
            both = await self._vectors([*UNRELATED_QUESTIONS, *UNRELATED_STATEMENTS], mode)
            questions, statements = both[: len(UNRELATED_QUESTIONS)], both[len(UNRELATED_QUESTIONS) :]
        else:
            questions = await self._vectors(UNRELATED_QUESTIONS, replace(mode, question=True))
            statements = await self._vectors(UNRELATED_STATEMENTS, replace(mode, question=False))
        return ServiceModelTraits(questions.shape[1], measure_unrelated(questions, statements))

    async def _vectors(self, texts: Sequence[str], mode: _AskMode) -> Matrix:
        windows_by_text = await asyncio.to_thread(
            lambda: [split_text(text, self._limits.window) for text in texts]
        )
        all_windows = [piece for parts in windows_by_text for piece in parts]
        vectors = np.concatenate(
            [await self._embed_batch(batch, mode) for batch in self._batches(all_windows)]
        )
        return combine_windows(vectors, [[part.tokens for part in parts] for parts in windows_by_text])

    def _batches(self, flat: Sequence[TextWindow]) -> Iterator[Sequence[TextWindow]]:
        most_tokens = self._limits.batch_tokens
        if self._limits.tokens_per_minute:
            # So that the wait for the next batch's share stays within the patience.
            share = self._limits.tokens_per_minute * min(1.0, self._limits.wait_seconds / 120)
            most_tokens = min(most_tokens, max(1, int(share)))
        return pack_batches(flat, most=self._limits.batch, most_tokens=most_tokens)

    async def _embed_batch(self, batch: Sequence[TextWindow], mode: _AskMode) -> Matrix:
        with self._circuit.guard() as trial:
            vectors = await self._send_recorded(batch, mode, trial=trial)
            self._check_length(vectors.shape[1])
            return vectors

    async def _send_recorded(self, batch: Sequence[TextWindow], mode: _AskMode, *, trial: bool) -> Matrix:
        """Send the batch, with retries while they may help, and record its usage, whatever happens.

        Raises ServiceFault, ModelAway.
        """
        timing, usage = self._timing, Usage()
        tokens = sum(piece.tokens for piece in batch)
        body = self._service.body([piece.text for piece in batch], question=mode.question)
        deadline = timing.now() + self._limits.wait_seconds if mode.until is None else mode.until

        async def send() -> Matrix:
            nonlocal usage
            await self._rate_limiter.take(tokens, patience=deadline - timing.now())
            usage = replace(usage, calls=usage.calls + 1)
            try:
                reply = await self._send(body, patience=max(0.1, deadline - timing.now()))
            except ServiceFault:
                usage = replace(usage, failed=usage.failed + 1)
                raise
            usage = replace(usage, tokens=tokens if reply.tokens is None else reply.tokens)
            return reply.vectors

        await self._ledger.reserve(tokens)
        try:
            if deadline <= timing.now():
                raise self._timeout_error()
            attempts = 1 if trial else TEXT_ATTEMPTS if mode.until is None else QUESTION_ATTEMPTS
            return await with_retries(send, attempts=attempts, deadline=deadline, timing=timing)
        finally:
            await self._ledger.settle(usage, reserved=tokens)

    async def _send(self, body: Mapping[str, Any], *, patience: float) -> EmbeddingReply:
        content = await self._connection.post(body, patience=patience)
        try:
            return parse_reply(content, len(body["input"]))
        except ValueError as error:
            raise ServiceFault(
                ModelBroken(
                    f"{self._service.title} answers what can't be read as vectors: {error}.",
                    advice="Check embedding.base_url: it usually ends in /v1.",
                )
            ) from error

    def _timeout_error(self) -> ModelAway:
        return ModelAway(f"{self._service.title} takes too long for a question to wait.", advice=ADVICE.later)

    def _check_length(self, length: int) -> None:
        expected = self._vector_length()
        if not expected or length == expected:
            return
        error = ModelMismatch(
            f"{self._service.title} gives vectors of {length:,} numbers for {self._service.model}; "
            f"{expected:,} are expected.",
            advice=f"`mindhold config set embedding.dimensions {length}`, then `mindhold models adopt`, "
            "takes them as they are.",
        )
        raise ServiceFault(error, hold_seconds=LONGEST_HOLD)


def split_text(text: str, most: int) -> list[TextWindow]:
    """Return the text, or its overlapping windows of at most so many tokens."""
    if not text.strip():
        text = BLANK_TEXT
    tokens = count_tokens(text)
    if tokens <= most or len(text) == 1:
        return [TextWindow(encodable(text), tokens)]
    # Tokens are not spread evenly: a window that has too many is cut again.
    width = max(1, len(text) * most // tokens * 9 // 10)
    return [piece for window in windows(text, width) for piece in split_text("".join(window), most)]


def pack_batches(
    flat: Sequence[TextWindow], *, most: int, most_tokens: int
) -> Iterator[Sequence[TextWindow]]:
    """Pack the pieces in order into batches within both limits; a piece larger than a batch goes alone."""
    batch: list[TextWindow] = []
    tokens = 0
    for piece in flat:
        if batch and (len(batch) == most or tokens + piece.tokens > most_tokens):
            yield batch
            batch, tokens = [], 0
        batch.append(piece)
        tokens += piece.tokens
    if batch:
        yield batch

"""The embedders behind a network: OpenAI, Voyage and compatible services, their models, requests and answers."""

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
from mindhold.providers.embedding.base import QUESTIONS, STATEMENTS, combine, spread, windows
from mindhold.providers.remote_service import (
    LONGEST_HOLD,
    Advice,
    Circuit,
    Pace,
    RemoteService,
    ServiceConnection,
    ServiceFault,
    Timing,
    document_of,
    pause,
)


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """What a request says beside its model and its texts."""

    size: str = "dimensions"  # the field that asks for a length
    always: Mapping[str, Any] = field(default_factory=dict)
    text: Mapping[str, Any] = field(default_factory=dict)
    question: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """One model. Tokens are counted by cl100k_base, with room for services that count otherwise."""

    dimensions: int = 0  # its own; 0 is unknown until the first call
    sizes: tuple[int, ...] = ()  # lengths that may be asked for; none: any up to its own
    window: int = 400  # most tokens of one text
    batch_tokens: int = 16_000
    price: float | None = None  # dollars a million tokens


@dataclass(frozen=True, slots=True)
class EmbeddingProvider:
    """A service, or a kind of service."""

    title: str
    address: str  # empty where the person must say it
    usual: str  # model; empty where the person must name it
    dialect: RequestFormat
    most_texts: int
    models: Mapping[str, ServiceModel] = field(default_factory=dict)
    other: ServiceModel = field(default_factory=ServiceModel)

    def model(self, name: str) -> ServiceModel:
        """What is known of a model; of one unheard of, what is safe."""
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
    dialect=RequestFormat(always={"encoding_format": "base64"}),
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
    dialect=RequestFormat(
        size="output_dimension",
        always={"encoding_format": "base64"},
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
    dialect=RequestFormat(),
    most_texts=2_048,
    other=ServiceModel(),  # it may be paid or not
)

PROVIDERS: Mapping[str, EmbeddingProvider] = {"openai": OPENAI, "voyage": VOYAGE, "compatible": COMPATIBLE}


def checked_size(model: ServiceModel, name: str, wanted: int) -> int:
    """The length to ask for; 0 leaves it to the service. Raises SettingsError where the model has no such length."""
    if not wanted or not model.dimensions or wanted == model.dimensions:
        return 0 if wanted == model.dimensions else wanted
    offered = model.sizes or (model.dimensions,)
    if wanted not in offered if model.sizes else wanted > model.dimensions:
        named = ", ".join(f"{size:,}" for size in offered) if model.sizes else f"at most {model.dimensions:,}"
        raise SettingsError(
            f"embedding.dimensions is {wanted:,}, and vectors of {name} have {named}.",
            advice="Correct it; 0 takes the model's own.",
        )
    return wanted


_TOO_MANY_TOKENS = 1_000_000_000  # for one call; whoever says so can't count
ADVICE = Advice(
    later="It is tried again by itself; recall goes by words meanwhile.",
    address="Correct embedding.base_url.",
    model="Check embedding.model and embedding.base_url, which usually ends in /v1.",
    call="Check embedding.model and embedding.dimensions; too long texts call for embedding.window_tokens.",
)


@dataclass(frozen=True, slots=True)
class EmbeddingReply:
    """Vectors as they came, a row a text, and the tokens that the service counted; None when it didn't say."""

    vectors: Matrix
    tokens: int | None


class EmbeddingConnection(ServiceConnection):
    """The line to an embedding service."""

    def __init__(self, title: str, address: str, key: str) -> None:
        super().__init__(RemoteService(title, address, ADVICE, key=key))
        self._title = title

    async def send(self, body: Mapping[str, Any], *, patience: float) -> EmbeddingReply:
        """Raises Fault; within the patience."""
        content = await self.post(body, patience=patience)
        try:
            return parsed(content, len(body["input"]))
        except ValueError as error:
            raise ServiceFault(
                ModelBroken(
                    f"{self._title} answers what can't be read as vectors: {error}.",
                    advice="Check embedding.base_url: it usually ends in /v1.",
                )
            ) from error


def parsed(content: bytes, count: int) -> EmbeddingReply:
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
    return EmbeddingReply((vectors / norms).astype(np.float32), _tokens(document.get("usage")))


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


QUESTION_ATTEMPTS = 2
TEXT_ATTEMPTS = 4
QUESTION_SECONDS = 5.0  # that a question waits in all: it can be answered by words
BLANK = "."  # services take no empty text
# Of a model that other processes have measured meanwhile, until this one asks it for the first time.
USUAL = Cosines(0.2, 0.1)


@dataclass(frozen=True, slots=True)
class Service:
    """One model of one service, and how it is asked."""

    provider: str
    title: str
    model: str
    address: str
    dialect: RequestFormat
    key: str = field(default="", repr=False)
    size: int = 0  # asked for; 0 leaves it to the service
    dimensions: int = 0  # expected; 0 until the first call tells

    @property
    def name(self) -> str:
        """Under which its vectors are kept: those of another length are another model's."""
        length = self.size or self.dimensions
        return f"{self.provider}:{self.model}/{length}" if length else f"{self.provider}:{self.model}"

    def body(self, texts: Sequence[str], *, question: bool) -> dict[str, Any]:
        """A request."""
        size = {self.dialect.size: self.size} if self.size else {}
        kind = self.dialect.question if question else self.dialect.text
        return {"model": self.model, "input": list(texts), **size, **kind, **self.dialect.always}


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much at once, and how long. Tokens are cl100k_base's."""

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
class _Manner:
    """How texts are asked for: as questions or not, and until when, where somebody waits for an answer."""

    question: bool
    until: float | None = None

    @property
    def hurried(self) -> bool:
        return self.until is not None


_PATIENT = _Manner(question=False)


@dataclass(slots=True)
class _Tally:
    calls: int = 0
    failed: int = 0
    tokens: int = 0


class ServiceEmbedder:
    """A service's model. Making one asks nothing; the first text also measures the model, unless that was done."""

    def __init__(
        self,
        service: Service,
        book: ServiceLedger,
        *,
        bounds: BatchLimits | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._service = service
        self._book = book
        self._bounds = bounds or BatchLimits()
        self._timing = timing or Timing()
        self._line = EmbeddingConnection(service.title, service.address, service.key)
        self._circuit = Circuit(self._timing)
        self._pace = Pace(
            self._bounds.requests_per_minute,
            self._bounds.tokens_per_minute,
            self._timing,
            section="embedding",
        )
        self._traits: ServiceModelTraits | None = None
        self._measuring = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._service.name

    @property
    def dimensions(self) -> int:
        known = self._known_length()
        if not known:
            raise ModelAway(
                f"{self._service.title} was not asked yet how long its vectors are.",
                advice="embedding.dimensions can say it.",
            )
        return known

    @property
    def unrelated(self) -> Cosines:
        return self._traits.unrelated if self._traits else USUAL

    def load(self) -> None:
        self._line.load()
        count_tokens(BLANK)

    async def close(self) -> None:
        await self._line.close()

    async def load_traits(self) -> None:
        """Take up what was measured once, so that it is known before the first text. Asks no service."""
        self._traits = self._traits or await self._book.traits()

    async def embed(self, texts: Sequence[str]) -> Matrix:
        if not texts:
            return np.zeros((0, self._known_length()), dtype=np.float32)
        await self._measured(_PATIENT)
        return await self._vectors(texts, _PATIENT)

    async def embed_query(self, text: str) -> Matrix:
        until = self._timing.now() + min(self._bounds.wait_seconds, QUESTION_SECONDS)
        asked = _Manner(question=True, until=until)
        await self._measured(asked)
        return await self._vectors([text], asked)

    def _known_length(self) -> int:
        if self._traits:
            return self._traits.dimensions
        return self._service.size or self._service.dimensions

    async def _measured(self, manner: _Manner) -> None:
        if self._traits is not None:
            return
        try:
            async with asyncio.timeout(None if manner.until is None else manner.until - self._timing.now()):
                await self._measuring.acquire()
        except TimeoutError as error:
            raise self._late() from error
        try:
            await self.load_traits()
            if self._traits is None:
                self._traits = await self._measure(manner)
                await self._book.keep_traits(self._traits)
        finally:
            self._measuring.release()

    async def _measure(self, manner: _Manner) -> ServiceModelTraits:
        """How long its vectors are, and how alike it finds what has nothing in common."""
        dialect = self._service.dialect
        if dialect.question == dialect.text:
            both = await self._vectors([*QUESTIONS, *STATEMENTS], manner)
            questions, statements = both[: len(QUESTIONS)], both[len(QUESTIONS) :]
        else:
            questions = await self._vectors(QUESTIONS, replace(manner, question=True))
            statements = await self._vectors(STATEMENTS, replace(manner, question=False))
        return ServiceModelTraits(questions.shape[1], spread(questions, statements))

    async def _vectors(self, texts: Sequence[str], manner: _Manner) -> Matrix:
        cut = await asyncio.to_thread(lambda: [pieces(text, self._bounds.window) for text in texts])
        flat = [piece for parts in cut for piece in parts]
        vectors = np.concatenate([await self._ask(batch, manner) for batch in self._batches(flat)])
        if len(flat) == len(texts):
            return vectors
        rows, start = [], 0
        for parts in cut:
            own = vectors[start : start + len(parts)]
            rows.append(own[0] if len(parts) == 1 else combine(own, [part.tokens for part in parts]))
            start += len(parts)
        return np.stack(rows)

    def _batches(self, flat: Sequence[TextWindow]) -> Iterator[Sequence[TextWindow]]:
        most = self._bounds.batch_tokens
        if self._bounds.tokens_per_minute:
            # So that the wait for the next one's share is within the patience.
            share = self._bounds.tokens_per_minute * min(1.0, self._bounds.wait_seconds / 120)
            most = min(most, max(1, int(share)))
        return packed(flat, most=self._bounds.batch, most_tokens=most)

    async def _ask(self, batch: Sequence[TextWindow], manner: _Manner) -> Matrix:
        trial = self._circuit.enter()
        try:
            reply = await self._counted(batch, manner, trial=trial)
            self._check_length(reply.vectors.shape[1])
        except ServiceFault as fault:
            if fault.holds is not None:
                self._circuit.opened(fault.error, at_least=max(fault.holds, fault.after or 0.0))
            raise fault.error from fault
        finally:
            if trial:
                self._circuit.left()
        self._circuit.closed()
        return reply.vectors

    async def _counted(self, batch: Sequence[TextWindow], manner: _Manner, *, trial: bool) -> EmbeddingReply:
        """In the ledger, whatever becomes of it."""
        tokens = sum(piece.tokens for piece in batch)
        await self._book.reserve(tokens)
        tally = _Tally()
        try:
            return await self._persist(batch, tally, manner, trial=trial)
        finally:
            await self._book.settle(Usage(tally.calls, tally.failed, tally.tokens), reserved=tokens)

    async def _persist(
        self, batch: Sequence[TextWindow], tally: _Tally, manner: _Manner, *, trial: bool
    ) -> EmbeddingReply:
        """Again and again, as long as that may help. Raises Fault, ModelAway."""
        timing = self._timing
        deadline = timing.now() + self._bounds.wait_seconds if manner.until is None else manner.until
        if deadline <= timing.now():
            raise self._late()
        left = 1 if trial else QUESTION_ATTEMPTS if manner.hurried else TEXT_ATTEMPTS
        body = self._service.body([piece.text for piece in batch], question=manner.question)
        tokens = sum(piece.tokens for piece in batch)
        while True:
            await self._pace.take(tokens, patience=deadline - timing.now())
            tally.calls += 1
            try:
                reply = await self._line.send(body, patience=max(0.1, deadline - timing.now()))
            except ServiceFault as fault:
                tally.failed += 1
                left -= 1
                delay = pause(tally.calls, timing.jitter())
                if fault.after is not None:
                    delay = fault.after * (1 + timing.jitter() / 4)
                if not fault.passing or not left or timing.now() + delay >= deadline:
                    raise
                await timing.sleep(delay)
                continue
            tally.tokens += tokens if reply.tokens is None else reply.tokens
            return reply

    def _late(self) -> ModelAway:
        return ModelAway(
            f"{self._service.title} takes too long for a question to wait.",
            advice="It is tried again by itself; recall goes by words meanwhile.",
        )

    def _check_length(self, length: int) -> None:
        expected = self._known_length()
        if not expected or length == expected:
            return
        error = ModelMismatch(
            f"{self._service.title} gives vectors of {length:,} numbers for {self._service.model}; "
            f"{expected:,} are expected.",
            advice=f"`mindhold config set embedding.dimensions {length}`, then `mindhold models adopt`, "
            "takes them as they are.",
        )
        raise ServiceFault(error, holds=LONGEST_HOLD)


def pieces(text: str, most: int) -> list[TextWindow]:
    """The text, or its windows of at most so many tokens, neighbours overlapping."""
    if not text.strip():
        text = BLANK
    tokens = count_tokens(text)
    if tokens <= most or len(text) == 1:
        return [TextWindow(_sendable(text), tokens)]
    # Tokens are not spread evenly: a window that has too many is cut again.
    width = max(1, len(text) * most // tokens * 9 // 10)
    return [piece for window in windows(text, width) for piece in pieces("".join(window), most)]


def packed(flat: Sequence[TextWindow], *, most: int, most_tokens: int) -> Iterator[Sequence[TextWindow]]:
    """In order, each batch within both bounds; what is larger than a batch goes alone."""
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


def _sendable(text: str) -> str:
    """Half a surrogate pair has no bytes to send."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

"""The embedders behind a network: OpenAI, Voyage, and whatever speaks OpenAI's protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mindhold.model.errors import ModelAway, ModelMismatch
from mindhold.model.ranking import Cosines
from mindhold.model.tokens import count_tokens
from mindhold.ports.embedder import Matrix
from mindhold.ports.services import ServiceBook, Traits, Usage
from mindhold.providers.embedding.calls import Reply, VectorLine
from mindhold.providers.embedding.service_models import Dialect
from mindhold.providers.embedding.unrelated import QUESTIONS, STATEMENTS, spread
from mindhold.providers.embedding.windows import combine, windows
from mindhold.providers.remote.line import Fault
from mindhold.providers.remote.patience import LONGEST_HOLD, Circuit, Pace, Timing, pause

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
    dialect: Dialect
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
class Bounds:
    """How much at once, and how long. Tokens are cl100k_base's."""

    batch: int = 128
    batch_tokens: int = 16_000
    window: int = 400
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    wait_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Piece:
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


class ServiceEmbedder:
    """A service's model. Making one asks nothing; the first text also measures the model, unless that was done."""

    def __init__(
        self,
        service: Service,
        book: ServiceBook,
        *,
        bounds: Bounds | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._service = service
        self._book = book
        self._bounds = bounds or Bounds()
        self._timing = timing or Timing()
        self._line = VectorLine(service.title, service.address, service.key)
        self._circuit = Circuit(self._timing)
        self._pace = Pace(
            self._bounds.requests_per_minute,
            self._bounds.tokens_per_minute,
            self._timing,
            section="embedding",
        )
        self._traits: Traits | None = None
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

    async def mindhold(self) -> None:
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
            await self.mindhold()
            if self._traits is None:
                self._traits = await self._measure(manner)
                await self._book.keep_traits(self._traits)
        finally:
            self._measuring.release()

    async def _measure(self, manner: _Manner) -> Traits:
        """How long its vectors are, and how alike it finds what has nothing in common."""
        dialect = self._service.dialect
        if dialect.question == dialect.text:
            both = await self._vectors([*QUESTIONS, *STATEMENTS], manner)
            questions, statements = both[: len(QUESTIONS)], both[len(QUESTIONS) :]
        else:
            questions = await self._vectors(QUESTIONS, replace(manner, question=True))
            statements = await self._vectors(STATEMENTS, replace(manner, question=False))
        return Traits(questions.shape[1], spread(questions, statements))

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

    def _batches(self, flat: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
        most = self._bounds.batch_tokens
        if self._bounds.tokens_per_minute:
            # So that the wait for the next one's share is within the patience.
            share = self._bounds.tokens_per_minute * min(1.0, self._bounds.wait_seconds / 120)
            most = min(most, max(1, int(share)))
        return packed(flat, most=self._bounds.batch, most_tokens=most)

    async def _ask(self, batch: Sequence[Piece], manner: _Manner) -> Matrix:
        trial = self._circuit.enter()
        try:
            reply = await self._counted(batch, manner, trial=trial)
            self._check_length(reply.vectors.shape[1])
        except Fault as fault:
            if fault.holds is not None:
                self._circuit.opened(fault.error, at_least=max(fault.holds, fault.after or 0.0))
            raise fault.error from fault
        finally:
            if trial:
                self._circuit.left()
        self._circuit.closed()
        return reply.vectors

    async def _counted(self, batch: Sequence[Piece], manner: _Manner, *, trial: bool) -> Reply:
        """In the ledger, whatever becomes of it."""
        tokens = sum(piece.tokens for piece in batch)
        await self._book.reserve(tokens)
        tally = _Tally()
        try:
            return await self._persist(batch, tally, manner, trial=trial)
        finally:
            await self._book.settle(Usage(tally.calls, tally.failed, tally.tokens), reserved=tokens)

    async def _persist(self, batch: Sequence[Piece], tally: _Tally, manner: _Manner, *, trial: bool) -> Reply:
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
            except Fault as fault:
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
        raise Fault(error, holds=LONGEST_HOLD)


@dataclass(slots=True)
class _Tally:
    calls: int = 0
    failed: int = 0
    tokens: int = 0


def pieces(text: str, most: int) -> list[Piece]:
    """The text, or its windows of at most so many tokens, neighbours overlapping."""
    if not text.strip():
        text = BLANK
    tokens = count_tokens(text)
    if tokens <= most or len(text) == 1:
        return [Piece(_sendable(text), tokens)]
    # Tokens are not spread evenly: a window that has too many is cut again.
    width = max(1, len(text) * most // tokens * 9 // 10)
    return [piece for window in windows(text, width) for piece in pieces("".join(window), most)]


def packed(flat: Sequence[Piece], *, most: int, most_tokens: int) -> Iterator[Sequence[Piece]]:
    """In order, each batch within both bounds; what is larger than a batch goes alone."""
    batch: list[Piece] = []
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

"""Vectors for memories that have none, the operations on embedding models, and what is recorded about an embedding service: calls, traits and speed."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from pydantic import Field

from mindhold.access.secrets import fingerprint
from mindhold.aio import run_concurrently
from mindhold.engine import Engine
from mindhold.memories.language import note_language
from mindhold.memories.model_budget import (
    EMBEDDING,
    KEPT,
    LEDGER_NAMESPACE,
    LONGEST_NAME,
    OK,
    day_of,
    spent_on_day,
)
from mindhold.model.errors import ModelAway, ModelError, ModelMismatch, Refused, SettingsError, StoreError
from mindhold.model.job import Entry, Job
from mindhold.model.memory import ANY_STATUS, Memory, Status
from mindhold.model.query import Filter
from mindhold.model.ranking import Cosines
from mindhold.model.tokens import count_tokens
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.embedder import (
    Embedder,
    Matrix,
    ModelCard,
    ServiceModelTraits,
    ServiceTerms,
    Usage,
    models_in,
)
from mindhold.ports.store import Capability, Clock, Cursors, Enqueue, Entries, NewId, Store

PROBE = "memory"
LOADING = "The embedding model is still loading."
SendGate = Callable[[], Awaitable[ModelMismatch | None]]  # why texts may not be sent yet; None if they may


class VectorSource:
    """The embedder, if there is one, and why there are no vectors if there are none.

    A service has `terms`, and a `gate` that checks before each call whether the user agreed.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        *,
        reason: str = "",
        terms: ServiceTerms | None = None,
        gate: SendGate | None = None,
    ) -> None:
        self._embedder = embedder
        self._reason = reason
        self._gate = gate
        self._refused = ""
        self.terms = terms
        self._warming: asyncio.Task[None] | None = None
        self._wait_seconds: float | None = None
        self._waited_until: float | None = None
        self.is_followed = False  # whether the stored vectors were made to follow this model
        self._asked = -math.inf  # time of the last question

    @property
    def model(self) -> str | None:
        """The model name that vectors are stored under; None without an embedder."""
        return self._embedder.name if self._embedder else None

    @property
    def reason(self) -> str:
        """Why there are no vectors; empty while there are."""
        return self._reason

    @property
    def rung(self) -> str:
        """What recall uses now, in words."""
        return "full text" if self._embedder is None or self._reason else f"full text + {self._embedder.name}"

    @property
    def unrelated(self) -> Cosines:
        """The cosines of unrelated texts in this model."""
        return self._embedder.unrelated if self._embedder else Cosines(0.0, 0.1)

    def similarity(self, cosine: float) -> float:
        """Convert a cosine to a scale that means the same for every model: 0 unrelated, 1 the same."""
        unrelated = self.unrelated.mean
        return max(0.0, (cosine - unrelated) / (1.0 - unrelated))

    @property
    def loading(self) -> bool:
        """Whether the model is being loaded in the background."""
        return self._warming is not None and not self._warming.done()

    def warm(self, *, wait_seconds: float | None = None) -> None:
        """Start to load the model in the background; errors appear at the first use.

        From the first question on, questions wait for it so many seconds, None: as long as it takes. Later ones are answered
        by full text, with a notice, until it is loaded.
        """
        self._wait_seconds = wait_seconds
        if self._embedder is not None and self._warming is None:
            self._warming = asyncio.create_task(self._load(self._embedder))

    async def close(self) -> None:
        """Wait for the model to load, then close the embedder."""
        if self._warming is not None:
            await self._warming
        if self._embedder is not None:
            await self._embedder.close()

    @staticmethod
    async def _load(embedder: Embedder) -> None:
        with suppress(ModelError):
            await asyncio.to_thread(embedder.load)

    async def refusal(self) -> ModelMismatch | None:
        """Return why the model may not be called now, and set `reason`; None if it may."""
        if self._gate is None:
            return None
        refusal = await self._gate()
        if refusal is not None:
            self._reason = self._refused = str(refusal)
        elif self._reason == self._refused:  # keep a reason that the service itself gave
            self._reason = self._refused = ""
        return refusal

    async def dimensions(self) -> int | None:
        """The length of the vectors; None without a model, or if the model doesn't know. May load the model."""
        if self._embedder is None:
            return None
        with suppress(ModelError):
            return await asyncio.to_thread(lambda embedder: embedder.dimensions, self._embedder)
        return None

    async def words(self, most: int) -> Sequence[str]:
        """The most common words of the model's vocabulary; none for a service or without a model. May load the model."""
        if self._embedder is None:
            return ()
        with suppress(ModelError):
            return await asyncio.to_thread(self._embedder.words, most)
        return ()

    async def probe(self) -> None:
        """Embed one word, whatever the gate says. Raises ModelError."""
        if self._embedder is not None:
            await self._embedder.embed([PROBE])  # not as a query: queries time out sooner

    async def embed(self, texts: Sequence[str]) -> Matrix | None:
        """Return one row per text; or None, with `reason` set."""
        if self._embedder is None or await self.refusal() is not None:
            return None
        return await self._result(self._embedder.embed(texts))

    def asked_within(self, seconds: float) -> bool:
        """Whether a question came within so many seconds; background work then makes room for the next one."""
        return time.monotonic() - self._asked < seconds

    async def embed_query(self, text: str) -> Matrix | None:
        """Return one row; or None, with `reason` set."""
        self._asked = time.monotonic()
        if self._embedder is None or await self.refusal() is not None:
            return None
        if self.loading and not await self._loaded_in_time():
            self._reason = LOADING
            return None
        return await self._result(self._embedder.embed_query(self._sendable(text)))

    async def _loaded_in_time(self) -> bool:
        if self._wait_seconds is None or self._warming is None:
            return True  # embedding waits for it
        if self._waited_until is None:
            self._waited_until = time.monotonic() + self._wait_seconds
        await asyncio.wait({self._warming}, timeout=max(0.0, self._waited_until - time.monotonic()))
        return self._warming.done()

    async def _result(self, embedding: Awaitable[Matrix]) -> Matrix | None:
        """Return the vectors; None if the model fails, with `reason` set."""
        try:
            matrix = await embedding
        except ModelError as error:
            self._reason = str(error)
            return None
        self._reason = ""
        return matrix

    def _sendable(self, question: str) -> str:
        """Redact a question that is sent to a service; memories were redacted when they were stored."""
        if self.terms is None or not self.terms.redact:
            return question
        from mindhold.text.redaction import redact  # imported late: its patterns take time to load

        return redact(question).text


async def prepare_questions(engine: Engine) -> None:
    """Load what the first question would wait for, beside the model: the store's index of vectors, and what counts tokens."""
    model = engine.vector_source.model
    async with run_concurrently(asyncio.to_thread(count_tokens, "")):
        if model is not None and Capability.VECTORS in engine.store.capabilities:
            with suppress(StoreError):  # the question will raise it
                await engine.store.nearest([], model=model, where=_ALIVE, limit=1)


EMBED = "embed"
EMBEDDER_CURSOR = "embedder"
ADOPTED = "embedder.adopted:"  # followed by a service's model: when the user adopted it
BATCH = 64
MOST_LOOKED_AT = 65_536
_ALIVE = Filter(
    viewer="system", statuses=tuple(status for status in ANY_STATUS if status is not Status.FORGOTTEN)
)


async def embed_missing(
    engine: Engine,
    *,
    progress: Callable[[int], None] = lambda _: None,
    enough: Callable[[], bool] = lambda: False,
) -> int:
    """Embed memories that lack a vector of the present model until none is left, or `enough()`, or the model fails.

    A service is sent the memories that were counted when it was adopted and those that were stored here since. A process
    whose model isn't the present one any more leaves the vectors to those that were started later.
    """
    model = engine.vector_source.model
    if engine.vector_source.is_followed and await engine.store.cursor(EMBEDDER_CURSOR) != model:
        return 0
    embedded = 0
    while model is not None and not enough():
        memories = await _missing(engine, model)
        matrix = (
            await engine.vector_source.embed([memory.content for memory in memories]) if memories else None
        )
        if matrix is None:
            break
        vectors = {
            memory.id: (memory.content_hash, row) for memory, row in zip(memories, matrix, strict=True)
        }
        stored = await engine.store.put_vectors(vectors, model=model)
        if not stored:  # all of them changed meanwhile, or the store takes no vectors: try another time
            break
        embedded += stored
        progress(embedded)
    return embedded


async def _missing(engine: Engine, model: str) -> Sequence[Memory]:
    """Return the next batch of memories without a vector; for a service, only those that it may be sent."""
    if engine.vector_source.terms is None:
        return await engine.store.unembedded(model, limit=BATCH)
    may = await sendable(engine, model)
    limit = BATCH
    while True:
        memories = await engine.store.unembedded(model, limit=limit)
        own = [memory for memory in memories if may(memory)]
        if own or len(memories) < limit or limit >= MOST_LOOKED_AT:
            return own[:BATCH]
        limit *= 4


async def sendable(engine: Engine, model: str) -> Callable[[Memory], bool]:
    """Return a predicate: which memories the model may be sent.

    A local model may be sent all of them. A service may be sent those that it embedded before, those that were counted when
    it was adopted, and those stored since without a vector; not those that others embedded, or wrote before this home joined
    their project.
    """
    if engine.vector_source.terms is None:
        return lambda memory: True
    adopted_at = await engine.store.cursor(ADOPTED + model)
    adopted = datetime.fromisoformat(adopted_at) if adopted_at else datetime.min.replace(tzinfo=UTC)
    born = {scope.name: scope.created for scope in await engine.store.scopes()}

    def may(memory: Memory) -> bool:
        begun = born.get(memory.scope)
        if begun is None:
            return False
        counted = max(memory.created, begun) <= adopted
        later = memory.embedded_by is None and memory.updated >= max(adopted, begun)
        return counted or later or memory.embedded_by == model

    return may


async def follow_model(engine: Engine) -> bool:
    """Queue re-embedding if the model differs from the last one. Returns whether it does.

    A service that wasn't adopted is not followed; `vector_source.reason` says so.
    """
    model = engine.vector_source.model
    if model is None or await engine.vector_source.refusal() is not None:
        return False
    before = await engine.store.cursor(EMBEDDER_CURSOR)
    if before != model:
        await engine.store.set_cursor(EMBEDDER_CURSOR, model)
    engine.vector_source.is_followed = True
    if before == model:
        return False
    if await engine.store.unembedded(model, limit=1):
        await queue_embedding(engine)
    return before is not None


async def queue_embedding(engine: Engine) -> None:
    """Queue the embedding job; at most one waits at a time."""
    now = engine.clock()
    job = Job(id=engine.new_id(), name=EMBED, created=now, due=now, key=EMBED)
    await engine.store.apply([Enqueue(job)])


def adoption(store: Store, model: str, *, clock: Clock) -> SendGate:
    """Return the gate of a service: open if it was adopted last, or if there is nothing to embed anew.

    The gate is checked at each call, since another process may have adopted another model. It stays closed while a store,
    or a project's store, can't be reached, since that may hold anything.
    """

    async def refusal() -> ModelMismatch | None:
        try:
            return await asked()
        except (StoreError, SettingsError) as error:
            return ModelMismatch(
                f"Whether every memory has a vector of {model} can't be told, so nothing is sent to it: {error.message}",
                advice=error.advice,
            )

    async def asked() -> ModelMismatch | None:
        before = await store.cursor(EMBEDDER_CURSOR)
        if before == model:
            return None
        if await store.unembedded(model, limit=1) or await _without_vector(store, model):
            state = f"The stored vectors are of {before}" if before else "The stored memories have no vectors"
            return ModelMismatch(
                f"{state}, and the model is {model}: every memory would be sent to it.",
                advice="`mindhold models adopt` shows the cost and does it; or set embedding.provider, "
                "embedding.model and embedding.dimensions back.",
            )
        await store.set_cursor(ADOPTED + model, clock().isoformat())
        await store.swap_cursor(EMBEDDER_CURSOR, old=before, new=model)
        return None

    return refusal


async def _without_vector(store: Store, model: str) -> bool:
    """Whether any store has a memory without this model's vector; `unembedded` skips stores that are away."""
    return any(count for name, count in (await store.tally(_ALIVE, "embedded_by")).items() if name != model)


SPEED = "reindex:speed"  # the namespace: texts a second by model
LEAST_COUNTED = 64
LEAST_MEASURED = 1.0  # seconds; in a shorter turn the texts may come from a cache
USUAL_SPEED = 50.0  # texts a second, for a model that was never measured


async def seconds_for(engine: Engine, model: str, count: int) -> int:
    entry = await engine.ledger.entry(SPEED, fingerprint(model), now=engine.clock())
    speed = float(entry.value["speed"]) if entry is not None else USUAL_SPEED
    return math.ceil(count / speed)


async def note_speed(engine: Engine, model: str, count: int, seconds: float) -> None:
    """Record the embedding speed; recent turns count most, since load and text lengths change."""
    if count < LEAST_COUNTED or seconds < LEAST_MEASURED:
        return
    place, now = fingerprint(model), engine.clock()
    entry = await engine.ledger.entry(SPEED, place, now=now)
    measured = count / seconds
    speed = measured if entry is None else (float(entry.value["speed"]) + measured) / 2
    await engine.ledger.put_entry(Entry(SPEED, place, {"speed": round(speed, 3)}, now))


TRAITS = "embedding:"  # followed by the model's name


class ServiceStore(Cursors, Entries, Protocol):
    """The parts of a store that the log of a service needs."""


@dataclass(frozen=True, slots=True)
class _Page:
    """One process's calls within one hour; one line per call would fill the store of a busy server."""

    hour: str
    day: str
    key: str
    used: Usage = field(default_factory=Usage)
    dollars: float = 0.0


class EmbeddingServiceLog:
    """A ServiceBook that is kept in the store."""

    def __init__(
        self, place: ServiceStore, *, clock: Clock, new_id: NewId, model: str, terms: ServiceTerms
    ) -> None:
        self._place = place
        self._clock = clock
        self._new_id = new_id
        self._model = model
        self._terms = terms
        self._page: _Page | None = None
        self._unwritten: list[_Page] = []  # pages of past hours
        self._reserved = 0
        self._writing = asyncio.Lock()

    async def traits(self) -> ServiceModelTraits | None:
        with suppress(StoreError, ValueError, KeyError, TypeError):
            written = json.loads(await self._place.cursor(TRAITS + self._model) or "null")
            return ServiceModelTraits(
                int(written["dimensions"]), Cosines(written["mean"], written["deviation"])
            )
        return None

    async def keep_traits(self, traits: ServiceModelTraits) -> None:
        cosines = traits.unrelated
        written = {"dimensions": traits.dimensions, "mean": cosines.mean, "deviation": cosines.deviation}
        with suppress(StoreError):
            await self._place.set_cursor(TRAITS + self._model, json.dumps(written))

    async def reserve(self, tokens: int) -> None:
        most = self._terms.daily_tokens
        if not most:
            return
        async with self._writing:
            self._reserved += tokens
            try:
                # Write first, then count: concurrent calls then see each other.
                await self._write(Usage())
                if (await spent_on_day(self._place, clock=self._clock, kind=EMBEDDING)).tokens <= most:
                    return
                reason = f"Today's {most:,} tokens for embeddings don't suffice for this call."
            except StoreError as error:
                reason = f"The ledger of embeddings can't be written: {error.message}"
            self._reserved -= tokens
            with suppress(StoreError):
                await self._write(Usage())
        raise ModelAway(reason, advice="Wait for tomorrow (UTC), or raise embedding.daily_tokens.")

    async def settle(self, used: Usage, *, reserved: int) -> None:
        to_release = reserved if self._terms.daily_tokens else 0
        if not used.calls and not to_release:
            return
        async with self._writing:
            self._reserved -= to_release
            with suppress(StoreError):  # the next call writes it
                await self._write(used)

    async def _write(self, more: Usage) -> None:
        page = self._current()
        used = page.used
        used = Usage(used.calls + more.calls, used.failed + more.failed, used.tokens + more.tokens)
        dollars = page.dollars + (self._terms.dollars(more.tokens) or 0.0)
        self._page = replace(page, used=used, dollars=dollars)
        while self._unwritten:
            await self._put(self._unwritten[0], reserved=0)
            del self._unwritten[0]
        await self._put(self._page, reserved=self._reserved)

    def _current(self) -> _Page:
        now = self._clock()
        hour = f"{day_of(now)} {now.hour:02}"
        page = self._page
        if page is None or page.hour != hour:
            if page is not None:  # calls under way are settled on the new page
                self._unwritten.append(page)
            page = self._page = _Page(hour, day_of(now), self._new_id())
        return page

    async def _put(self, page: _Page, *, reserved: int) -> None:
        now = self._clock()
        value = {
            "kind": EMBEDDING,
            "model": self._model[:LONGEST_NAME],
            "calls": page.used.calls,
            "failed": page.used.failed,
            "tokens_in": page.used.tokens + reserved,
            "tokens_out": 0,
            "dollars": page.dollars,
            "outcome": OK,
        }
        await self._place.put_entry(Entry(LEDGER_NAMESPACE + page.day, page.key, value, now, now + KEPT))


class EmbedInput(Input):
    """Nothing to say."""


class EmbedResult(Output):
    """How many memories got a vector, and why not more."""

    embedded: int
    model: str | None
    notice: str


async def _embed(context: Context, _given: EmbedInput) -> EmbedResult:
    """Make the vectors that are missing."""
    await note_language(context.engine)
    await follow_model(context.engine)
    embedded = await embed_missing(
        context.engine, progress=lambda count: context.progress("embed", count, None)
    )
    if context.engine.vector_source.reason:
        await queue_embedding(context.engine)
    return EmbedResult(
        embedded=embedded,
        model=context.engine.vector_source.model,
        notice=context.engine.vector_source.reason,
    )


EMBED_MISSING = operation("embed_missing", _embed, writes=True, owner_only=True)


class ModelView(Output):
    """One model; those that tell contradictions have no dimensions.

    `bytes_used` is what it takes on disk, or would take. `relative_time` is the time for a text as a multiple of the default
    model's; 0 if nobody measured it.
    """

    name: str
    dimensions: int
    description: str
    installed: bool
    active: bool
    precision: str
    bytes_used: int
    source: str
    alias: str = ""
    languages: str = ""
    relative_time: float = 0.0


class ListModelsInput(Input):
    """Nothing to say."""


class ListModelsResult(Output):
    """What is here and what can be had, the best first."""

    models: list[ModelView]
    active: str | None


class PullModelInput(Input):
    """A name, a folder, or a hub's `org/name`; the default one when empty, `nli` the one that tells contradictions."""

    name: str = ""
    precision: str = Field(default="int8", pattern="^(int8|float)$")
    force: bool = False


class PullModelResult(Output):
    """The model that is here now, and how many memories still wait for its vectors."""

    model: ModelView
    notice: str = ""


class RemoveModelInput(Input):
    """Which one."""

    name: str


class RemoveModelResult(Output):
    """Which one."""

    name: str


async def _list_models(context: Context, _given: ListModelsInput) -> ListModelsResult:
    """Models here and to be had."""
    installed = await asyncio.to_thread(context.engine.models.installed)
    models = context.engine.models
    available = await asyncio.to_thread(lambda: [*models.catalogue(), *models.classifiers()])
    cards = {card.name: card for card in (*installed, *available) if card.installed}
    cards |= {card.name: card for card in available if card.name not in cards}
    return ListModelsResult(
        models=[_model(context, card) for card in cards.values()], active=context.engine.vector_source.model
    )


LIST_MODELS = operation("list_models", _list_models, reads=True)


async def _pull_model(context: Context, request: PullModelInput) -> PullModelResult:
    """Fetch and prepare a model."""
    card = await asyncio.to_thread(
        context.engine.models.pull,
        request.name,
        precision=request.precision,
        force=request.force,
        progress=context.progress,
    )
    await note_language(context.engine)  # the next session may choose this model by it
    return PullModelResult(model=_model(context, card))


PULL_MODEL = operation("pull_model", _pull_model, writes=True, owner_only=True)


async def _remove_model(context: Context, request: RemoveModelInput) -> RemoveModelResult:
    """Remove a model's files."""
    await asyncio.to_thread(context.engine.models.remove, request.name)
    return RemoveModelResult(name=request.name)


REMOVE_MODEL = operation("remove_model", _remove_model, destroys=True, owner_only=True)


def _model(context: Context, card: ModelCard) -> ModelView:
    embedders = models_in(context.engine.vector_source.model or "")
    classifier = context.engine.classifier.name if context.engine.classifier else ""
    active = card.installed and (card.name in embedders or classifier.endswith(card.name))
    return ModelView(**asdict(card), active=active)


class AdoptInput(Input):
    """`preview` tells what it would take, and does nothing."""

    preview: bool = False


class AdoptResult(Output):
    """How much is sent. `dollars` is None where the price is unknown; `queued` says whether the job was queued."""

    model: str
    before: str | None = None
    memories: int
    tokens: int
    dollars: float | None = None
    queued: bool


async def _adopt(context: Context, request: AdoptInput) -> AdoptResult:
    """Let the configured model make every vector anew, or tell what that costs.

    The model is tried first. Raises Refused without a model, ModelError.
    """
    engine, source = context.engine, context.engine.vector_source
    model = source.model
    if model is None:
        raise Refused(source.reason or "There is no model.", advice="Set embedding.provider.")
    before = await engine.store.cursor(EMBEDDER_CURSOR)
    memories = tokens = 0
    async for batch in engine.store.scan(_ALIVE):
        for memory in batch:
            if memory.embedded_by != model:
                memories += 1
                tokens += memory.tokens
    if not request.preview:
        await source.probe()
        await engine.store.set_cursor(ADOPTED + model, engine.clock().isoformat())
        await engine.store.set_cursor(EMBEDDER_CURSOR, model)
        await source.refusal()
        await queue_embedding(engine)
    return AdoptResult(
        model=model,
        before=before,
        memories=memories,
        tokens=tokens,
        dollars=source.terms.dollars(tokens) if source.terms else 0.0,
        queued=not request.preview,
    )


ADOPT_MODEL = operation("adopt_model", _adopt, writes=True, owner_only=True)

"""Vectors when a model can make them, a reason when not: recall never fails for want of a model."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from mindhold.model.errors import ModelError, ModelMismatch
from mindhold.model.ranking import Cosines
from mindhold.ports.embedder import Embedder, Matrix
from mindhold.ports.services import Terms

PROBE = "memory"
LOADING = "The embedding model is still loading."
Gate = Callable[[], Awaitable[ModelMismatch | None]]  # why texts may not be sent yet; None when they may


class Meaning:
    """The embedder and the rung of the ladder that it stands on.

    A service has `terms`, and a `gate` that is asked before each text whether the person agreed.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        *,
        reason: str = "",
        terms: Terms | None = None,
        gate: Gate | None = None,
    ) -> None:
        self._embedder = embedder
        self._reason = reason
        self._gate = gate
        self._refused = ""
        self.terms = terms
        self._warming: asyncio.Task[None] | None = None
        self._patient = True
        self._asked = -math.inf  # when a question came last

    @property
    def model(self) -> str | None:
        """The name that vectors are kept under; None when there is no embedder."""
        return self._embedder.name if self._embedder else None

    @property
    def reason(self) -> str:
        """Why there are no vectors; empty while there are."""
        return self._reason

    @property
    def rung(self) -> str:
        """What recall stands on now, in words."""
        return "full text" if self._embedder is None or self._reason else f"full text + {self._embedder.name}"

    @property
    def unrelated(self) -> Cosines:
        """How alike unrelated texts look to the model; for one that works."""
        return self._embedder.unrelated if self._embedder else Cosines(0.0, 0.1)

    def similarity(self, cosine: float) -> float:
        """The cosine on a scale that means the same for every model: 0 unrelated, 1 the same."""
        unrelated = self.unrelated.mean
        return max(0.0, (cosine - unrelated) / (1.0 - unrelated))

    def warm(self, *, patient: bool = True) -> None:
        """Begin to load the model, in the background; what goes wrong is told by the first use.

        Unless `patient`, questions that come meanwhile are not kept waiting: they stand on words alone, and say so.
        """
        self._patient = patient
        if self._embedder is not None and self._warming is None:
            self._warming = asyncio.create_task(self._load(self._embedder))

    async def close(self) -> None:
        """Wait for what is under way and let go of the embedder."""
        if self._warming is not None:
            await self._warming
        if self._embedder is not None:
            await self._embedder.close()

    @staticmethod
    async def _load(embedder: Embedder) -> None:
        with suppress(ModelError):
            await asyncio.to_thread(embedder.load)

    async def refusal(self) -> ModelMismatch | None:
        """Why the model may not be asked now, with `reason` set; None while it may."""
        if self._gate is None:
            return None
        refusal = await self._gate()
        if refusal is not None:
            self._reason = self._refused = str(refusal)
        elif self._reason == self._refused:  # and not for what the service itself said
            self._reason = self._refused = ""
        return refusal

    async def dimensions(self) -> int | None:
        """The length of its vectors; None where there is no model, or it can't tell. May load it."""
        if self._embedder is None:
            return None
        with suppress(ModelError):
            return await asyncio.to_thread(lambda embedder: embedder.dimensions, self._embedder)
        return None

    async def probe(self) -> None:
        """Have one word embedded, whatever the gate says. Raises ModelError."""
        if self._embedder is not None:
            await self._embedder.embed([PROBE])  # patiently: a question wouldn't wait for long

    async def embed(self, texts: Sequence[str]) -> Matrix | None:
        """A row a text, or None with `reason` set."""
        if self._embedder is None or await self.refusal() is not None:
            return None
        try:
            matrix = await self._embedder.embed(texts)
        except ModelError as error:
            self._reason = str(error)
            return None
        self._reason = ""
        return matrix

    def asked_within(self, seconds: float) -> bool:
        """Whether somebody asked a question lately, who may ask another: then what nobody waits for makes room."""
        return time.monotonic() - self._asked < seconds

    async def embed_query(self, text: str) -> Matrix | None:
        """One row, or None with `reason` set."""
        self._asked = time.monotonic()
        if self._embedder is None or await self.refusal() is not None:
            return None
        if not self._patient and self._warming is not None and not self._warming.done():
            self._reason = LOADING
            return None
        try:
            matrix = await self._embedder.embed_query(self._sendable(text))
        except ModelError as error:
            self._reason = str(error)
            return None
        self._reason = ""
        return matrix

    def _sendable(self, question: str) -> str:
        """What is remembered lost its secrets when it was stored; a question that leaves the machine loses them here."""
        if self.terms is None or not self.terms.redact:
            return question
        from mindhold.engine.text.redact import redact  # its patterns are for those who need them

        return redact(question).text

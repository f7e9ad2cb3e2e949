"""What turns text into vectors: embedders, paid embedding services, and the registry of local models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mindhold.model.ranking import Cosines

Matrix = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Texts in, unit vectors out. Contract: mindhold.testing.models.

    A local one raises ModelMissing and ModelBroken; a service ModelAway, ModelDenied and ModelMismatch too.
    """

    @property
    def name(self) -> str:
        """Which model, and in which form; vectors of two names are never compared."""

    @property
    def dimensions(self) -> int:
        """Length of every vector. May load the model; raises ModelError."""

    @property
    def unrelated(self) -> Cosines:
        """How alike two unrelated texts look to this model. May load it; raises ModelError.

        Known for sure once a text was embedded.
        """

    def load(self) -> None:
        """Make ready what the first text would, without asking a network; blocks. Raises ModelError."""

    async def close(self) -> None:
        """Let go of threads and connections; idempotent."""

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit row a text, in order. Long texts count whole, not only their beginning.

        Raises ModelError.
        """

    async def embed_query(self, text: str) -> Matrix:
        """One row, for a question. Raises ModelError."""


@dataclass(frozen=True, slots=True)
class ServiceTerms:
    """On which terms texts are sent to a service. `price` is in dollars a million tokens; None is unknown."""

    price: float | None = None
    daily_tokens: int = 0  # 0: no cap
    redact: bool = True  # whether questions lose secrets and personal data before they are sent

    def dollars(self, tokens: int) -> float | None:
        """What so many tokens cost."""
        return None if self.price is None else tokens * self.price / 1_000_000


@dataclass(frozen=True, slots=True)
class ServiceModelTraits:
    """What the first call showed of a service's model."""

    dimensions: int
    unrelated: Cosines


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests that were made for one batch of texts, and the tokens that the service counted."""

    calls: int = 0
    failed: int = 0
    tokens: int = 0


class ServiceLedger(Protocol):
    """Where one service's model is written down. Forgetful rather than failing: no method raises StoreError."""

    async def traits(self) -> ServiceModelTraits | None:
        """What was measured once; None when it never was."""

    async def keep_traits(self, traits: ServiceModelTraits) -> None:
        """Remember them for every process."""

    async def reserve(self, tokens: int) -> None:
        """Before a call. Raises ModelAway when the day's tokens don't suffice, or can't be counted."""

    async def settle(self, used: Usage, *, reserved: int) -> None:
        """After it, whatever became of it."""


Progress = Callable[[str, int, int | None], None]  # what is being done, how much of it, of how much


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model that can be pulled, or was."""

    name: str
    dimensions: int
    description: str
    installed: bool = False
    precision: str = ""
    bytes_used: int = 0
    source: str = ""


class ModelRegistry(Protocol):
    """Where models are kept. Methods block: call them from a thread."""

    def catalogue(self) -> Sequence[ModelCard]:
        """The models known by name, the best first; installed ones say so."""

    def installed(self) -> Sequence[ModelCard]:
        """What is here, the best first; also what was pulled from a folder or a hub."""

    def classifiers(self) -> Sequence[ModelCard]:
        """Models that tell contradictions: what is here, then what can be had by name. They have no dimensions."""

    def pull(self, name: str, *, precision: str, force: bool, progress: Progress) -> ModelCard:
        """Fetch and prepare one; done already if it is here, unless forced.

        An empty name is the default model, or the next best if that can't be had; `nli` the default classifier. Raises
        ModelPullFailed.
        """

    def remove(self, name: str) -> None:
        """Raises ModelMissing."""

    def verify(self, name: str) -> list[str]:
        """What is wrong with its files; nothing when they are whole."""

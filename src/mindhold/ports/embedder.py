"""Models that turn text into vectors: embedders, paid embedding services, and the registry of local models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mindhold.model.ranking import Cosines

Matrix = npt.NDArray[np.float32]
BETWEEN_MODELS = "+"  # in the name of an embedder that uses two


def models_in(name: str) -> list[str]:
    """The local models in an embedder's name: "small/int8" or "small+other/int8"."""
    return name.rpartition("/")[0].split(BETWEEN_MODELS)


class Embedder(Protocol):
    """Turns texts into unit vectors. Contract: mindhold.testing.providers_contract.

    A local model raises ModelMissing and ModelBroken; a service also raises ModelAway, ModelDenied and ModelMismatch.
    """

    @property
    def name(self) -> str:
        """The model and its precision. Vectors of different names are never compared."""

    @property
    def dimensions(self) -> int:
        """The length of every vector. May load the model; raises ModelError."""

    @property
    def unrelated(self) -> Cosines:
        """The similarity of unrelated texts under this model. May load the model; raises ModelError.

        It is exact only after the first text was embedded.
        """

    def load(self) -> None:
        """Load the model ahead of the first text, without network access. Blocks. Raises ModelError."""

    async def close(self) -> None:
        """Release threads and connections. Idempotent."""

    def words(self, most: int) -> Sequence[str]:
        """The most common whole words of the model's vocabulary, at most so many; none for a service. Blocks. Raises ModelError."""

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit vector per text, in order. Covers the whole of a long text, not only its beginning.

        Raises ModelError.
        """

    async def embed_query(self, text: str) -> Matrix:
        """The unit vector of a search query, as a matrix of one row. Raises ModelError."""


@dataclass(frozen=True, slots=True)
class ServiceTerms:
    """The terms of sending texts to a service. `price` is in dollars per million tokens; None is unknown."""

    price: float | None = None
    daily_tokens: int = 0  # 0: no cap
    redact: bool = True  # whether to remove secrets and personal data from queries before sending

    def dollars(self, tokens: int) -> float | None:
        """The price of that many tokens; None if unknown."""
        return None if self.price is None else tokens * self.price / 1_000_000


@dataclass(frozen=True, slots=True)
class ServiceModelTraits:
    """Properties of a service's model, measured at the first call."""

    dimensions: int
    unrelated: Cosines


@dataclass(frozen=True, slots=True)
class Usage:
    """The number of requests for one batch of texts, and the tokens that the service counted."""

    calls: int = 0
    failed: int = 0
    tokens: int = 0


class ServiceLedger(Protocol):
    """The record of one service's model and its token use. Loses data rather than fails: no method raises StoreError."""

    async def traits(self) -> ServiceModelTraits | None:
        """The measured properties of the model; None before the first measurement."""

    async def keep_traits(self, traits: ServiceModelTraits) -> None:
        """Store the properties for all processes."""

    async def reserve(self, tokens: int) -> None:
        """Reserve tokens before a call. Raises ModelAway if the daily limit doesn't allow them, or use can't be counted."""

    async def settle(self, used: Usage, *, reserved: int) -> None:
        """Replace the reservation by the actual use after a call, successful or not."""


MULTILINGUAL = "multilingual"  # the short name of the model for texts that aren't English

Progress = Callable[[str, int, int | None], None]  # current step, amount done, total amount (None: unknown)


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model that is installed or can be pulled. `bytes_used` is what it takes on disk, or will take."""

    name: str
    dimensions: int
    description: str
    installed: bool = False
    precision: str = ""
    bytes_used: int = 0
    source: str = ""
    alias: str = ""  # a short name
    languages: str = ""
    relative_time: float = 0.0  # for one text, as a multiple of the default model's; 0: unknown


class ModelRegistry(Protocol):
    """The models on this machine. Methods block: call them from a thread."""

    def catalogue(self) -> Sequence[ModelCard]:
        """The models that can be pulled by name, best first, with a mark on installed ones."""

    def installed(self) -> Sequence[ModelCard]:
        """The installed models, best first, also those pulled from a folder or a hub."""

    def classifiers(self) -> Sequence[ModelCard]:
        """Models that detect contradictions: installed ones, then those that can be pulled by name. They have no dimensions."""

    def pull(self, name: str, *, precision: str, force: bool, progress: Progress) -> ModelCard:
        """Download and prepare a model. Does nothing if it is installed, unless `force`.

        An empty name means the default model, or the next best if that isn't available; `nli` means the default classifier.
        Raises ModelPullFailed.
        """

    def remove(self, name: str) -> None:
        """Delete an installed model. Raises ModelMissing."""

    def verify(self, name: str) -> list[str]:
        """The faults of its files; empty if they are intact."""

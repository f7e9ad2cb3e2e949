"""What turns text into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mindhold.model.ranking import Cosines

Matrix = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Texts in, unit vectors out. Contract: mindhold.testing.embedder_contract.

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

"""The shelf of local models: what can be had, what is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

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


class ModelShelf(Protocol):
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

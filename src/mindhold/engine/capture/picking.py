"""Who picks out what is worth keeping: a language model where the person agreed to one, else rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mindhold.engine.capture.by_model import by_model
from mindhold.engine.capture.item import Item
from mindhold.engine.capture.readable import Chunk, chunks
from mindhold.engine.capture.rules import by_rules
from mindhold.engine.core import Engine
from mindhold.engine.ledger import EXTRACT, Line, Metered, metered, note_memories
from mindhold.model.errors import ModelError
from mindhold.model.memory import Memory
from mindhold.model.query import Filter
from mindhold.ports.transcripts import Step

RULES = "rules"
MOST_EXISTING = 200  # memories that a model may be reminded of


@dataclass(frozen=True, slots=True)
class Picked:
    """The items of a piece, and what those must know who go on with the conversation.

    `calls` has what the model was asked, each with the places of its items.
    """

    items: tuple[Item, ...]
    carried: Mapping[str, Any]
    calls: tuple[tuple[Line, tuple[int, ...]], ...] = ()


@dataclass(slots=True)
class Picker:
    """One capture's. The model is asked so often at most, and no more once it failed: the rest is left to rules."""

    engine: Engine
    folder: str
    agent: str
    notice: str = ""
    _model: Metered | None = field(init=False)
    _answered: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        own, capture = self.engine.llm, self.engine.policy.capture
        self._model = metered(self.engine, own, purpose=EXTRACT) if capture.by_model and own else None
        if capture.by_model and own is None:
            self.notice = "There is no language model: rules picked out what was captured."

    @property
    def rung(self) -> str:
        """Who did it, as far as it is done: rules, or the model that answered."""
        return self._model.name if self._model is not None and self._answered else RULES

    async def pick(self, steps: Sequence[Step], carried: Mapping[str, Any], *, scope: str | None) -> Picked:
        """What is worth keeping in these steps, of the kinds that are captured. Raises the store's errors."""
        if self._model is None:
            return await self._by_rules(steps, carried)
        items: list[Item] = []
        calls: list[tuple[Line, tuple[int, ...]]] = []
        existing = await self._existing(scope)
        for chunk in chunks(steps):
            found = await self._asked(chunk, existing)
            if found is None:
                picked = await self._by_rules(chunk.steps, carried)
                found, carried = picked.items, picked.carried
            elif self._model.line is not None:
                calls.append((self._model.line, tuple(range(len(items), len(items) + len(found)))))
            items += found
        return Picked(tuple(items), carried, tuple(calls))

    async def note(self, picked: Picked, ids: Sequence[str | None]) -> None:
        """Which memories the calls were for."""
        for line, places in picked.calls:
            named = [one for place in places if (one := ids[place]) is not None]
            await note_memories(self.engine, line, named)

    async def _by_rules(self, steps: Sequence[Step], carried: Mapping[str, Any]) -> Picked:
        found = await by_rules(self.engine, steps, carried, folder=self.folder)
        return Picked(self._wanted(found.items), found.carried)

    async def _asked(self, chunk: Chunk, existing: Sequence[Memory]) -> tuple[Item, ...] | None:
        """What the model finds; None where it isn't asked any more, or fails."""
        model = self._model
        left = self.engine.policy.capture.most_calls - model.calls if model else 0
        if model is None or left <= 0 or self.notice:
            return None
        if not chunk.lines:
            return ()
        try:
            found = await by_model(self.engine, model, chunk.lines, existing, repair=left > 1)
        except ModelError as error:
            self.notice = f"Rules picked out what the model should have: {error}"
            return None
        self._answered = True
        return self._wanted(found)

    def _wanted(self, items: Sequence[Item]) -> tuple[Item, ...]:
        return tuple(item for item in items if item.kind in self.engine.policy.capture.kinds)

    async def _existing(self, scope: str | None) -> list[Memory]:
        if scope is None:
            return []
        kinds = tuple(sorted(self.engine.policy.capture.kinds))
        where = Filter(viewer=self.agent, scopes=(scope,), kinds=kinds)
        return await self.engine.store.find(where, limit=MOST_EXISTING)

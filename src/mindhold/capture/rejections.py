"""What the user rejected of captured memories, and which new items are so alike that they are not kept again.

A rejection names a forgotten memory, which has the words, the vector and the rule's shape. Restoring the memory, or
erasing it, ends the rejection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from mindhold.capture.extracted_items import CapturedItem
from mindhold.engine import Engine
from mindhold.memories.prepare import content_hash, safe_text
from mindhold.memories.views import MemoryView, View
from mindhold.model.job import Entry
from mindhold.model.memory import Kind, Memory, Status
from mindhold.model.query import Vector
from mindhold.operations import Context, Input, Output, full_ids, operation
from mindhold.text.similarity import content_words, difference_kinds, jaccard

REJECTED_NAMESPACE = "capture:rejected"  # entries by the id of the forgotten memory
MAX_REJECTIONS = 10_000
DROPS_THAT_TEACH = (
    2  # alike memories that were dropped, without a "never again", until their like is left out
)
# Shares of common words from which two are alike: of the same shape, of another.
SAME_SHAPE_SHARE, OTHER_SHAPE_SHARE = 0.4, 0.6
FEWEST_COMMON_WORDS = 2
# Similarities in meaning from which two are alike: of the same shape, of another.
SAME_SHAPE_MEANING, OTHER_SHAPE_MEANING = 0.75, 0.85
# A text that differs in one of these says the opposite: that is news, and no repetition.
_CONTRARY = frozenset({"negation", "antonym"})
_LABEL = re.compile(r"[^\W\d_][^:.!?`\n]{1,40}:(?=\s)")
_WORD = re.compile(r"`[^`]*`|[^\W_][\w'’-]*")
_NAMELIKE = re.compile(r"`|.*[\d/]")
SHAPE_WORDS = 2


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected memory, and whether the user wants its like never again."""

    memory: Memory
    never: bool


async def note_rejected(engine: Engine, memories: Sequence[Memory], *, never: bool) -> None:
    """Record that the user rejected these memories. "Never again" stays when a memory is dropped once more."""
    now = engine.clock()
    for memory in memories:
        earlier = await engine.store.entry(REJECTED_NAMESPACE, memory.id, now=now)
        value = {"never": never or (earlier is not None and bool(earlier.value.get("never")))}
        await engine.store.put_entry(Entry(REJECTED_NAMESPACE, memory.id, value, now))


async def drop_rejections(engine: Engine, ids: Sequence[str]) -> list[str]:
    """Drop the rejections of these memories; return the ids that had one."""
    return [memory_id for memory_id in ids if await engine.store.drop_entry(REJECTED_NAMESPACE, memory_id)]


async def rejections_of(engine: Engine, *, agent: str, scopes: Sequence[str] = ()) -> list[Rejection]:
    """Return the rejections of the agent's own memories, newest first. Those of memories that are gone are dropped."""
    entries = await engine.store.entries(REJECTED_NAMESPACE, now=engine.clock(), limit=MAX_REJECTIONS)
    if not entries:
        return []
    memories = await engine.store.get_many([entry.key for entry in entries], viewer=agent)
    return [
        Rejection(memory, never=bool(entry.value.get("never")))
        for entry in entries
        if (memory := memories.get(entry.key)) is not None
        and memory.status is Status.FORGOTTEN
        and memory.agent == agent
        and (not scopes or memory.scope in scopes)
    ]


async def rejected_items(
    engine: Engine, items: Sequence[CapturedItem], *, scope: str, agent: str
) -> frozenset[int]:
    """Return the indexes of the items that are like what the user rejected in that project, whatever extracted them."""
    rejections = await rejections_of(engine, agent=agent, scopes=(scope,)) if items else []
    if not rejections:
        return frozenset()
    texts = [safe_text(engine, item.content) for item in items]
    kinds = {rejection.memory.kind for rejection in rejections}
    compared = [index for index, item in enumerate(items) if item.kind in kinds]
    similarities = await _similarities(engine, {index: texts[index] for index in compared}, rejections)
    return frozenset(
        index
        for index in compared
        if _is_rejected(items[index].kind, texts[index], rejections, similarities.get(index, {}))
    )


async def _similarities(
    engine: Engine, texts: Mapping[int, str], rejections: Sequence[Rejection]
) -> dict[int, dict[str, float]]:
    """Return how similar in meaning each text is to each rejected memory; nothing without vectors."""
    model = engine.vector_source.model
    if model is None or not texts:
        return {}
    ids = [rejection.memory.id for rejection in rejections]
    vectors = await engine.store.vector_of(ids, model=model)
    matrix = await engine.vector_source.embed(list(texts.values())) if vectors else None
    if matrix is None:
        return {}
    return {
        index: {
            memory_id: engine.vector_source.similarity(_cosine(row, vector))
            for memory_id, vector in vectors.items()
        }
        for index, row in zip(texts, matrix, strict=True)
    }


def _cosine(left: Vector, right: Vector) -> float:
    norm = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / norm if norm else 0.0


def _is_rejected(
    kind: Kind, text: str, rejections: Sequence[Rejection], similarities: Mapping[str, float]
) -> bool:
    """Whether a "never again" is alike, or so many dropped memories are."""
    drops = 0
    for rejection in rejections:
        memory = rejection.memory
        if memory.kind is kind and is_alike(text, memory, similarities.get(memory.id, 0.0)):
            drops += 1
            if rejection.never or drops >= DROPS_THAT_TEACH:
                return True
    return False


def is_alike(text: str, rejected: Memory, similarity: float) -> bool:
    """Whether the text says about what the rejected memory says: the same, or in the same shape with like words or meaning."""
    if content_hash(text) == rejected.content_hash:
        return True
    if difference_kinds(text, rejected.content) & _CONTRARY:
        return False
    has_same_shape = shape_of(text) == shape_of(rejected.content)
    words, rejected_words = content_words(text), content_words(rejected.content)
    least_share = SAME_SHAPE_SHARE if has_same_shape else OTHER_SHAPE_SHARE
    common = len(words & rejected_words)
    if common >= FEWEST_COMMON_WORDS and jaccard(words, rejected_words) >= least_share:
        return True
    return similarity >= (SAME_SHAPE_MEANING if has_same_shape else OTHER_SHAPE_MEANING)


def shape_of(text: str) -> str:
    """The shape of a line, which tells what made it: its label ("decision:"), else its first words without names and numbers.

    "Ran `make deploy` on host-2" and "Ran `make test` twice" have one shape: "ran …".
    """
    if label := _LABEL.match(text):
        return label[0].casefold()
    words = _WORD.findall(text)[:SHAPE_WORDS]
    return " ".join("…" if _NAMELIKE.match(word) else word.casefold() for word in words)


class ListRejectionsInput(Input):
    """No input."""


class RejectionView(View):
    """A memory that the user rejected. `never`: its like is left out from the first time on."""

    memory: MemoryView = Field(examples=[{"content": "Ran `make test` twice."}])
    never: bool = Field(description="Whether its like is never kept again.", examples=[True])


class ListRejectionsResult(Output):
    """What the user rejected, newest first."""

    rejections: list[RejectionView]


class LiftRejectionsInput(Input):
    """Which rejections end, by the ids of their memories; these stay forgotten."""

    ids: list[str] = Field(min_length=1, max_length=1000, description="Ids of memories.")


class LiftRejectionsResult(Output):
    """The memories whose like may be captured again."""

    lifted: list[str] = Field(examples=[["01m7gv42a3fzcy3gb19vmek4q7"]])


async def _list_rejections(context: Context, _request: ListRejectionsInput) -> ListRejectionsResult:
    """What the user rejected of what was captured, which teaches capture what not to keep."""
    rejections = await rejections_of(context.engine, agent=context.agent)
    now = context.engine.clock()
    return ListRejectionsResult(
        rejections=[
            RejectionView(memory=MemoryView.of(rejection.memory, now), never=rejection.never)
            for rejection in rejections
        ]
    )


LIST_REJECTIONS = operation("list_rejections", _list_rejections, reads=True)


async def _lift_rejections(context: Context, request: LiftRejectionsInput) -> LiftRejectionsResult:
    """Let the like of rejected memories be captured again."""
    ids = await full_ids(context, request.ids)
    known = {rejection.memory.id for rejection in await rejections_of(context.engine, agent=context.agent)}
    own = [memory_id for memory_id in ids if memory_id in known]
    return LiftRejectionsResult(lifted=await drop_rejections(context.engine, own))


LIFT_REJECTIONS = operation("lift_rejections", _lift_rejections, writes=True, changes_memories=False)

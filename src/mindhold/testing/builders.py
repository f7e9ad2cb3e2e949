"""Records and queries for tests, the same at every run; and skips for capabilities that a store lacks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import numpy as np

from mindhold.model.job import Job
from mindhold.model.memory import Kind, Link, Memory, Provenance, Relation, Version
from mindhold.model.query import Candidates, Filter, Search, Vector
from mindhold.model.scope import GLOBAL, Scope
from mindhold.ports.store import Capability, Put, Store

START = datetime(2026, 1, 5, 9, 0, 0, 123_456, tzinfo=UTC)
MODEL = "test-model"
DIMENSIONS = 32


class Builder:
    """Builds records, each a minute later than the previous one."""

    def __init__(self, prefix: str = "m") -> None:
        self._prefix = prefix
        self._count = 0

    @property
    def now(self) -> datetime:
        return START + timedelta(minutes=self._count)

    def new_id(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count:08d}"

    def memory(self, content: str = "", **fields: Any) -> Memory:
        memory_id = self.new_id()
        content = content or f"content of {memory_id}"
        plain = Memory(
            id=memory_id,
            content=content,
            kind=Kind.FACT,
            scope=GLOBAL,
            agent="default",
            created=self.now,
            updated=self.now,
            occurred=self.now,
            content_hash=hashlib.sha256(content.encode()).hexdigest(),
            tokens=len(content.split()),
        )
        return replace(plain, **fields)

    def put(self, content: str = "", *, vector: Vector | None = None, gist: str = "", **fields: Any) -> Put:
        if vector is not None:
            fields.setdefault("embedded_by", MODEL)
        memory = self.memory(content, **fields)
        return Put(memory, words(memory.content), gist=gist, vector=vector)

    def version(self, memory: Memory, number: int, content: str) -> Version:
        self._count += 1
        shared = [field.name for field in fields(Version) if hasattr(memory, field.name)]
        return Version(
            **{name: getattr(memory, name) for name in shared}
            | {"memory_id": memory.id, "number": number, "content": content},
            amended=self.now,
            amended_by=memory.agent,
        )

    def link(
        self, origin: Memory, target: Memory, relation: Relation = Relation.RELATED, **fields: Any
    ) -> Link:
        self._count += 1
        return replace(Link(origin.id, target.id, relation, self.now), **fields)

    def scope(self, name: str, **fields: Any) -> Scope:
        self._count += 1
        return replace(Scope(name, self.now), **fields)

    def job(self, name: str = "embed", **fields: Any) -> Job:
        job_id = self.new_id()
        return replace(Job(id=job_id, name=name, created=self.now, due=self.now), **fields)


def ids(memories: Iterable[Memory]) -> list[str]:
    return [memory.id for memory in memories]


def words(text: str) -> list[str]:
    """Lower-case words, which are good enough as lexemes in a test."""
    return [word for word in "".join(c if c.isalnum() else " " for c in text.lower()).split() if word]


def unit(*numbers: float, dimensions: int = DIMENSIONS) -> Vector:
    """A vector of length 1 that starts with these numbers."""
    vector = np.zeros(dimensions, dtype=np.float32)
    vector[: len(numbers)] = numbers
    length = np.linalg.norm(vector)
    return np.asarray(vector / length if length else vector, dtype=np.float32)


Test = TypeVar("Test", bound=Callable[..., Any])


def needs(capability: Capability) -> Callable[[Test], Test]:
    """Mark a contract test as needing a capability of the store."""

    def mark(test: Test) -> Test:
        test.needed_capability = capability  # type: ignore[attr-defined]
        return test

    return mark


def leave_out(contract: type, *, expects: frozenset[Capability]) -> None:
    """Remove the tests from a contract's subclass that need a capability its store lacks."""
    for name in dir(contract):
        capability = getattr(getattr(contract, name), "needed_capability", None)
        if capability is not None and capability not in expects:
            setattr(contract, name, None)


def clustered(count: int, *, seed: int) -> list[Vector]:
    """Vectors in 40 clusters, like those of sentences."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(40, DIMENSIONS))
    vectors = centres[random.integers(0, len(centres), count)] + 0.5 * random.normal(size=(count, DIMENSIONS))
    return [np.asarray(vector / np.linalg.norm(vector), dtype=np.float32) for vector in vectors]


async def by_text(store: Store, *words: str, **where: Any) -> Candidates:
    """Search by words only."""
    return await store.search(Search(Filter(**where), words, neighbours=False))


async def by_vector(store: Store, vector: Vector, **where: Any) -> Candidates:
    """Search by a vector only."""
    return await store.search(Search(Filter(**where), (), vector, MODEL, neighbours=False))


def position_in(conversation: str, position: int) -> Provenance:
    """The provenance of a message at that position."""
    return Provenance(conversation=conversation, position=position)

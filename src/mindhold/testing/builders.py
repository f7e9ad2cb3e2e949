"""Records and queries to test with: ids and times are the same at every run; skips for capabilities a store lacks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import numpy as np

from mindhold.model.job import Job
from mindhold.model.lexemes import lexemes
from mindhold.model.memory import Kind, Link, Memory, Provenance, Relation, Version
from mindhold.model.query import Candidates, Filter, Search, Vector
from mindhold.model.scope import GLOBAL, Scope
from mindhold.ports.store import Capability, Put, Store

START = datetime(2026, 1, 5, 9, 0, 0, 123_456, tzinfo=UTC)
MODEL = "test-model"
DIMENSIONS = 32


class Builder:
    """Makes one thing after the other; each is a minute later than the one before."""

    def __init__(self, prefix: str = "m") -> None:
        self._prefix = prefix
        self._made = 0

    @property
    def now(self) -> datetime:
        return START + timedelta(minutes=self._made)

    def new_id(self) -> str:
        self._made += 1
        return f"{self._prefix}{self._made:08d}"

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
        self._made += 1
        return Version(
            memory_id=memory.id,
            number=number,
            content=content,
            kind=memory.kind,
            topic=memory.topic,
            tags=memory.tags,
            keywords=memory.keywords,
            importance=memory.importance,
            anchor=memory.anchor,
            occurred=memory.occurred,
            tier=memory.tier,
            metadata=memory.metadata,
            amended=self.now,
            amended_by=memory.agent,
        )

    def link(
        self, origin: Memory, target: Memory, relation: Relation = Relation.RELATED, **fields: Any
    ) -> Link:
        self._made += 1
        return replace(Link(origin.id, target.id, relation, self.now), **fields)

    def scope(self, name: str, **fields: Any) -> Scope:
        self._made += 1
        return replace(Scope(name, self.now), **fields)

    def job(self, name: str = "embed", **fields: Any) -> Job:
        job_id = self.new_id()
        return replace(Job(id=job_id, name=name, created=self.now, due=self.now), **fields)


def words(text: str) -> list[str]:
    """Lexemes enough for a test: lower-case words."""
    return [word for word in "".join(c if c.isalnum() else " " for c in text.lower()).split() if word]


def unit(*numbers: float, dimensions: int = DIMENSIONS) -> Vector:
    """A vector of length 1 that begins with these numbers."""
    vector = np.zeros(dimensions, dtype=np.float32)
    vector[: len(numbers)] = numbers
    length = np.linalg.norm(vector)
    return np.asarray(vector / length if length else vector, dtype=np.float32)


Test = TypeVar("Test", bound=Callable[..., Any])


def needs(capability: Capability) -> Callable[[Test], Test]:
    """Marks a test of the contract."""

    def mark(test: Test) -> Test:
        test.needed_capability = capability  # type: ignore[attr-defined]
        return test

    return mark


def leave_out(contract: type, *, expects: frozenset[Capability]) -> None:
    """Take the tests out of a contract's subclass that need what its store is not expected to have."""
    for name in dir(contract):
        needed = getattr(getattr(contract, name), "needed_capability", None)
        if needed is not None and needed not in expects:
            setattr(contract, name, None)


def clustered(count: int, *, seed: int, clusters: int = 40) -> list[Vector]:
    """Vectors that lie together in heaps, as those of sentences do."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, DIMENSIONS))
    vectors = centres[random.integers(0, clusters, count)] + 0.5 * random.normal(size=(count, DIMENSIONS))
    return [np.asarray(vector / np.linalg.norm(vector), dtype=np.float32) for vector in vectors]


def indexed(build: Builder, content: str, **fields: Any) -> Put:
    """A Put whose lexemes are the real ones."""
    return replace(build.put(content, **fields), lexemes=lexemes(content))


async def by_text(store: Store, *words: str, **where: Any) -> Candidates:
    return await store.search(Search(Filter(**where), words, neighbours=False))


async def by_vector(store: Store, vector: Vector, **where: Any) -> Candidates:
    return await store.search(Search(Filter(**where), (), vector, MODEL, neighbours=False))


def position_in(conversation: str, position: int) -> Provenance:
    return Provenance(conversation=conversation, position=position)

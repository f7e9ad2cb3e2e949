"""Records to test with: ids and times grow by themselves and are the same at every run."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from mindhold.model.job import Job
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Kind, Memory, Version
from mindhold.model.query import Vector
from mindhold.model.scope import GLOBAL, Scope
from mindhold.ports.store import Put

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

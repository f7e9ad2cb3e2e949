"""Imports an export: each line is checked like a write, and importing it twice changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from mindhold.aio import run_uncancelled
from mindhold.engine import Engine
from mindhold.lifecycle.contradiction_records import (
    TYPE,
    ExportedPair,
    import_pairs,
    is_dismissed_link,
    parse_exported_pair,
)
from mindhold.memories.export import BATCH, FORMAT, link_from, memory_from, scope_from, version_from
from mindhold.memories.prepare import (
    PART_OF,
    QUARANTINE_FROM,
    QUARANTINED_TRUST,
    checked_content,
    checked_labels,
    checked_metadata,
    checked_provenance,
    checked_topic,
    content_hash,
    everything_said,
    imported_scope,
    imported_scope_name,
    index_memory,
)
from mindhold.model.errors import InvalidInput, Refused
from mindhold.model.lifecycle import Fate, fate_of
from mindhold.model.memory import Link, Memory, Status, Version
from mindhold.model.scope import GLOBAL, Scope, sees
from mindhold.model.tokens import count_tokens
from mindhold.ports.embedder import Matrix
from mindhold.ports.store import Change, Connect, Keep
from mindhold.text.injection import suspicion

_Item = Scope | Memory | Version | Link | ExportedPair


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did; `skipped` existed already, by id or by content."""

    memories: int = 0
    skipped: int = 0
    links: int = 0
    versions: int = 0
    scopes: int = 0
    redacted: int = 0
    contradictions: int = 0


async def import_lines(
    engine: Engine, lines: Iterable[str], *, agent: str, progress: Callable[[int], None] = lambda _: None
) -> Imported:
    """Import the lines of an export; existing memories are skipped, so it can be repeated.

    Raises InvalidInput with the line, Refused for memories of an agent that the caller doesn't see.
    """
    intake = _Import(engine, agent)
    return await _taken(intake, _batches(_parsed(lines, intake.checked, now=engine.clock())), progress)


async def import_items(
    engine: Engine,
    items: Sequence[tuple[str, Memory | Link]],
    *,
    agent: str,
    progress: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Import what was read from a file of another format, each item with its name there.

    Everything is checked before anything is written. Raises InvalidInput with the name, Refused.
    """
    intake = _Import(engine, agent)
    checked = await run_uncancelled(asyncio.to_thread(_all_checked, items, intake.checked))
    return await _taken(intake, _batches(checked), progress)


async def _taken(
    intake: _Import, batches: Iterator[list[_Item]], progress: Callable[[int], None]
) -> Imported:
    # In a thread: reading and checking takes long, and would block other tasks.
    while (batch := await run_uncancelled(asyncio.to_thread(next, batches, None))) is not None:
        await intake.take(batch)
        progress(intake.done.memories + intake.done.skipped)
    await intake.finish()
    progress(intake.done.memories + intake.done.skipped)
    return intake.done


def _all_checked(
    items: Iterable[tuple[str, Memory | Link]], checked: Callable[[_Item], _Item]
) -> list[_Item]:
    results = []
    for name, item in items:
        try:
            results.append(checked(item))
        except InvalidInput as error:
            raise type(error)(f"{name} is refused: {error.message}", advice=error.advice) from error
    return results


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield batches that keep a memory and its versions together: an interrupted import couldn't add versions later."""
    batch: list[_Item] = []
    for item in items:
        if len(batch) >= BATCH and not isinstance(item, Version):
            yield batch
            batch = []
        batch.append(item)
    yield batch


def _parsed(lines: Iterable[str], checked: Callable[[_Item], _Item], *, now: datetime) -> Iterator[_Item]:
    seen_head = False
    readers: dict[str, Callable[[dict[str, Any]], _Item]] = {
        "scope": scope_from,
        "memory": partial(memory_from, now=now),
        "version": version_from,
        "link": link_from,
        TYPE: parse_exported_pair,
    }
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            if not seen_head:
                _check_head(document)
                seen_head = True
                continue
            item = checked(readers[document["type"]](document))
        except InvalidInput as error:
            raise type(error)(f"Line {number} is refused: {error.message}", advice=error.advice) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidInput(
                f"Line {number} is not a line of an export: {error}.",
                advice="Nothing from that batch on was imported; correct the line and import again.",
            ) from error
        yield item
    if not seen_head:
        raise InvalidInput("There is nothing in it.", advice="Give a file that `mindhold export` wrote.")


def _check_head(document: Any) -> None:
    if not isinstance(document, dict) or document.get("mindhold") != "export":
        raise InvalidInput(
            "the first line must be the head of a Mindhold export.",
            advice="Plain JSON lines, one memory each, are read by `mindhold remember --batch --file FILE`.",
        )
    if document.get("format") != FORMAT:
        raise ValueError(f"format {document.get('format')} is not known; this Mindhold reads {FORMAT}")


class _Import:
    """One running import; knows which memories it added, since links and contradictions depend on it."""

    def __init__(self, engine: Engine, agent: str) -> None:
        self.done = Imported()
        self._engine = engine
        self._agent = agent
        self._new: set[str] = set()
        self._redacted: set[str] = set()
        self._orphans: list[Scope] = []

    def checked(self, item: _Item) -> _Item:
        """Check and clean an item as a write would, since a file may come from anywhere; our own exports pass unchanged.

        Raises InvalidInput, Refused.
        """
        if isinstance(item, Memory):
            return self._checked_memory(item)
        if isinstance(item, Version):
            return self._checked_version(item)
        return imported_scope(self._engine, item) if isinstance(item, Scope) else item

    async def take(self, batch: Sequence[_Item]) -> None:
        """Write a batch in one transaction."""
        memories = [item for item in batch if isinstance(item, Memory)]
        present = await self._engine.store.get_many([memory.id for memory in memories], viewer="system")
        fresh = await self._fresh(memory for memory in memories if memory.id not in present)
        new_scopes = await self._scopes([item for item in batch if isinstance(item, Scope)])
        self._new.update(memory.id for memory in fresh)
        same = {memory.id for memory in memories if _says_the_same(memory, present.get(memory.id))}
        versions = await self._missing([item for item in batch if isinstance(item, Version)], same)
        links = await self._drawable([item for item in batch if isinstance(item, Link)])
        changes: list[Change] = await self._puts(fresh)
        changes.extend(Keep(version) for version in versions)
        changes.extend(Connect(link) for link in links)
        await self._engine.store.apply(changes)
        pairs = [item for item in batch if isinstance(item, ExportedPair)]
        new_pairs = await import_pairs(self._engine, pairs, agent=self._agent, new=self._new)
        self.done = Imported(
            memories=self.done.memories + len(fresh),
            skipped=self.done.skipped + len(memories) - len(fresh),
            links=self.done.links + len(links),
            versions=self.done.versions + len(versions),
            scopes=self.done.scopes + new_scopes,
            redacted=self.done.redacted + sum(memory.id in self._redacted for memory in fresh),
            contradictions=self.done.contradictions + new_pairs,
        )

    async def _scopes(self, scopes: Sequence[Scope]) -> int:
        existing = {scope.name: scope for scope in await self._engine.store.scopes()} if scopes else {}
        missing = [scope for scope in scopes if scope.name not in existing]
        for scope in scopes:
            if scope.name == GLOBAL:
                await self._engine.store.put_scope(_older(existing[GLOBAL], scope))
        for scope in missing:
            await self._engine.store.put_scope(replace(scope, parent=None))
        self._orphans.extend(scope for scope in missing if scope.parent is not None)
        await self._nest(existing.keys() | {scope.name for scope in missing})
        return len(missing)

    async def _nest(self, known: Set[str]) -> None:
        """Set parents as soon as they exist, so that an interrupted import leaves scopes in their places."""
        for scope in self._orphans:
            if scope.parent in known:
                await self._engine.store.put_scope(scope)
        self._orphans = [scope for scope in self._orphans if scope.parent not in known]

    async def finish(self) -> None:
        """Set the remaining parents, which may be anywhere in the file. Raises ScopeNotFound if one is missing."""
        for scope in self._orphans:
            await self._engine.store.put_scope(scope)

    async def _missing(self, versions: Sequence[Version], same: Set[str]) -> list[Version]:
        """Return versions of new memories, and those that an unchanged memory lacks after an interrupted import."""
        missing: list[Version] = []
        numbers: dict[str, set[int]] = {}
        for version in versions:
            memory_id = version.memory_id
            if memory_id not in self._new and memory_id not in same:
                continue
            if memory_id not in numbers:
                stored = await self._engine.store.versions_of(memory_id)
                numbers[memory_id] = {each.number for each in stored}
            if version.number not in numbers[memory_id]:
                numbers[memory_id].add(version.number)
                missing.append(version)
        return missing

    async def _fresh(self, absent: Iterable[Memory]) -> list[Memory]:
        """Return the memories that repeat neither a stored one nor an earlier one of the batch."""
        fresh: dict[str, Memory] = {}
        hashes: set[tuple[str, str, str]] = set()
        for memory in absent:
            if memory.id not in fresh and not await self._repeats(memory, hashes):
                fresh[memory.id] = memory
        return list(fresh.values())

    async def _repeats(self, memory: Memory, hashes: set[tuple[str, str, str]]) -> bool:
        if memory.status not in (Status.ACTIVE, Status.QUARANTINED):
            return False
        key = (memory.scope, memory.agent, memory.content_hash)
        same = await self._engine.store.by_hash([memory.content_hash], scope=memory.scope, agent=memory.agent)
        if same or key in hashes:
            return True
        hashes.add(key)
        return False

    def _checked_memory(self, memory: Memory) -> Memory:
        engine = self._engine
        if not sees(self._agent, memory.agent):
            raise Refused(
                f"The file has memories of the agent {memory.agent!r}, and you are {self._agent!r}.",
                advice="Import it as that agent, or as system.",
            )
        text = checked_content(engine, memory.content)
        if text != memory.content:
            self._redacted.add(memory.id)
        digest = content_hash(text)
        part = text == memory.content and memory.content_hash.startswith(PART_OF)
        part = part and len(memory.content_hash) == len(PART_OF) + len(digest)
        memory = self._with_time(memory)
        return replace(
            _quarantined(memory) if _instructs(memory) else memory,
            scope=imported_scope_name(engine, memory.scope),
            content=text,
            content_hash=memory.content_hash if part else digest,
            tokens=count_tokens(text),
            topic=checked_topic(engine, memory.topic),
            tags=checked_labels(engine, memory.tags, what="tag"),
            keywords=checked_labels(engine, memory.keywords, what="keyword"),
            provenance=checked_provenance(engine, memory.provenance),
            metadata=checked_metadata(engine, memory.metadata),
        )

    def _with_time(self, memory: Memory) -> Memory:
        """Restart the archive term of a memory whose term is over; otherwise upkeep would erase it again."""
        now, settings = self._engine.clock(), self._engine.settings
        times = [
            days for days in (settings.life.keep_archived_days, settings.capture.keep_dropped_days) if days
        ]
        life = replace(settings.lifecycle_rules, keep_archived_days=min(times, default=0))
        if fate_of(memory, now, life)[0] is not Fate.ERASED:
            return memory
        return replace(memory, updated=now, review=now)

    def _checked_version(self, version: Version) -> Version:
        engine = self._engine
        return replace(
            version,
            content=checked_content(engine, version.content),
            topic=checked_topic(engine, version.topic),
            tags=checked_labels(engine, version.tags, what="tag"),
            keywords=checked_labels(engine, version.keywords, what="keyword"),
            metadata=checked_metadata(engine, version.metadata),
        )

    async def _drawable(self, links: Sequence[Link]) -> list[Link]:
        ends = {end for link in links for end in (link.origin, link.target)} - self._new
        present = await self._engine.store.get_many(list(ends), viewer=self._agent)
        drawn = await self._engine.store.links_of(list(present), viewer=self._agent)
        known_ids = present.keys() | self._new
        missing = [link for link in links if link not in drawn and {link.origin, link.target} <= known_ids]
        return [link for link in missing if not await is_dismissed_link(self._engine, link, present)]

    async def _puts(self, memories: Sequence[Memory]) -> list[Change]:
        source, zone = self._engine.vector_source, self._engine.zone()
        matrix = await source.embed([memory.content for memory in memories])
        vectors: Iterable[Matrix | None] = matrix if matrix is not None else [None] * len(memories)
        pairs = list(zip(memories, vectors, strict=True))
        return await asyncio.to_thread(
            lambda: [index_memory(memory, zone).put(vector, source.model) for memory, vector in pairs]
        )


def _instructs(memory: Memory) -> bool:
    """Whether the raw text reads like instructions. Hidden characters are a sign, and cleaning would remove them."""
    labels = (memory.topic, *memory.tags, *memory.keywords)
    full_text = everything_said(
        memory.content, labels=labels, provenance=memory.provenance, metadata=memory.metadata
    )
    return suspicion(full_text).score >= QUARANTINE_FROM


def _quarantined(memory: Memory) -> Memory:
    """Return the memory as quarantined, also if it could only become active later."""
    if memory.status is Status.ACTIVE:
        return replace(memory, status=Status.QUARANTINED, trust=QUARANTINED_TRUST)
    if memory.previous_status is Status.ACTIVE:
        return replace(memory, previous_status=Status.QUARANTINED, trust=QUARANTINED_TRUST)
    return memory


def _says_the_same(memory: Memory, ours: Memory | None) -> bool:
    return ours is not None and (ours.agent, ours.content_hash) == (memory.agent, memory.content_hash)


def _older(ours: Scope, theirs: Scope) -> Scope:
    """Merge Global, which every home has: the earlier creation, and whichever description there is."""
    return replace(
        ours,
        created=min(ours.created, theirs.created),
        description=ours.description or theirs.description,
        keywords=ours.keywords or theirs.keywords,
    )

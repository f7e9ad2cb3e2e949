"""Reads and writes the summary of a project as a versioned memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.amend import AmendInput, amend
from mindhold.memories.prepare import QUARANTINE_FROM, content_hash, name_hash, prepare
from mindhold.memories.validation import safe_text
from mindhold.memories.write import RememberInput
from mindhold.model.errors import Changed, Conflict, ContentTooLarge, EmptyContent, Refused
from mindhold.model.memory import Kind, Memory, Version, moment_of
from mindhold.model.query import Filter
from mindhold.model.scope import DEFAULT_AGENT
from mindhold.projects.placement import PROJECT, open_project
from mindhold.projects.summary_sections import SummaryKnowledge, render_summary
from mindhold.text.injection import suspicion

TOPIC = "project summary"
SUMMARY_OF, VERSION, WRITTEN, LAST_MESSAGE = "summary_of", "version", "written", "last_summarized_message_id"
TRIGGER, MERGED_BY, RESTORED = "trigger", "merged_by", "restored_version"
BY_HAND = "hand"  # amended outside of these use cases
NOTHING = "0-none"  # the etag of a missing summary
ANY = "*"  # matches the etag of any existing summary
LONGEST_SUMMARY = 12_000
PATIENCE = 15.0  # seconds in which other processes may write first, again and again
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a project; version 0 while there is none."""

    project: str
    text: str = ""
    knowledge: SummaryKnowledge = field(default_factory=SummaryKnowledge)
    version: int = 0
    updated: datetime | None = None
    last_message: str | None = None  # the last message, in the order of saving, that is included
    trigger: str = ""
    merged_by: str = ""
    restored: int | None = None  # the version that was restored
    memory: str | None = None  # the id of its record
    indexed: bool = False  # whether it has a vector

    @property
    def etag(self) -> str:
        """A tag that changes with the version and the text."""
        return f"{self.version}-{content_hash(self.text)[:8]}" if self.memory else NOTHING


async def project_summary(engine: Engine, project: str | None, *, agent: str) -> Summary:
    """Return the summary of a project. Raises ScopeNotFound."""
    name = (await open_project(engine, project)).name
    return await _stated(engine, await held_summary(engine, name, agent=agent), name)


async def write_summary(
    engine: Engine,
    scope: str,
    change: Callable[[Summary], Summary],
    *,
    agent: str,
    expected: str | None = None,
) -> Summary:
    """Apply `change` to the summary, again if somebody else changes it meanwhile. `change` runs in a thread.

    Writers of this process take turns; collisions with other processes are retried after random, growing pauses. Raises
    Changed if it isn't the `expected` one, Refused if it reads like instructions to its reader.
    """
    async with engine.summary_locks.of(scope):
        return await _written(engine, scope, change, agent=agent, expected=expected)


async def _written(
    engine: Engine, scope: str, change: Callable[[Summary], Summary], *, agent: str, expected: str | None
) -> Summary:
    # A summary is one record: it must not be split like other long texts.
    longer = max(engine.settings.intake.part_length, LONGEST_SUMMARY + 2 * len(title_of(scope)))
    roomy = engine.with_settings(intake=replace(engine.settings.intake, part_length=longer))
    clock = asyncio.get_running_loop().time
    until, pause = clock() + PATIENCE, SHORTEST_PAUSE
    while True:
        record = await held_summary(engine, scope, agent=agent)
        before = await _stated(engine, record, scope)
        check_expected(before, expected)
        after = replace(await asyncio.to_thread(change, before), version=before.version + 1)
        refuse_instructions(text_of(engine, after))
        try:
            if record is None:
                return summary_of(await _begun(roomy, after, agent=agent), scope)
            return summary_of(await _amended(roomy, record, after, agent=agent), scope)
        except Conflict as error:
            faster = record is None or isinstance(error, Changed)  # somebody else wrote first
            if not faster or clock() > until:
                raise
        await asyncio.sleep(random.uniform(0, pause))
        pause = min(2 * pause, LONGEST_PAUSE)


def check_expected(summary: Summary, expected: str | None) -> None:
    """Raise Changed if the summary isn't the one that the caller has read."""
    if expected is None or expected == summary.etag or (expected == ANY and summary.memory):
        return
    raise Changed(
        f"The summary of {summary.project!r} is another one by now: {summary.etag}.",
        advice="Read it again, then try again.",
    )


async def held_summary(engine: Engine, scope: str, *, agent: str) -> Memory | None:
    """Return the record of the summary; the agent's own before a shared one."""
    records = await _records(engine, scope, agent=agent)
    order = (agent, DEFAULT_AGENT)

    def rank(memory: Memory) -> tuple[int, str]:
        return order.index(memory.agent) if memory.agent in order else len(order), memory.id

    return min(records, key=rank, default=None)


def summary_of(record: Memory | Version, project: str) -> Summary:
    """Read the summary from its record; a text that was amended by hand becomes the narrative."""
    metadata = record.metadata
    knowledge = SummaryKnowledge.of_metadata(metadata)
    by = metadata.get(MERGED_BY)
    if is_by_hand(record):
        knowledge = SummaryKnowledge(narrative=record.content.removeprefix(f"# {title_of(project)}").strip())
        by = BY_HAND
    restored = metadata.get(RESTORED)
    summary = Summary(
        project=project,
        text=record.content,
        knowledge=knowledge,
        version=noted_version(record),
        last_message=_text_at(metadata.get(LAST_MESSAGE)),
        trigger=_text_at(metadata.get(TRIGGER)) or "",
        merged_by=_text_at(by) or "",
        restored=restored if isinstance(restored, int) else None,
    )
    if isinstance(record, Version):
        return replace(summary, memory=record.memory_id)
    return replace(summary, memory=record.id, updated=record.updated, indexed=record.embedded_by is not None)


def numbered(records: Sequence[Memory | Version]) -> list[int]:
    """Return the version number of each record, oldest first; an amendment by hand counts unless the text stayed the same."""
    numbers: list[int] = []
    for place, record in enumerate(records):
        before = numbers[-1] if numbers else 0
        same = place and records[place - 1].content == record.content
        if same and noted_version(record) == noted_version(records[place - 1]):
            numbers.append(before)
        else:
            numbers.append(max(noted_version(record), before + 1))
    return numbers


def is_by_hand(record: Memory | Version) -> bool:
    """Whether its text was amended by hand."""
    return record.metadata.get(WRITTEN) != content_hash(record.content)


def noted_version(record: Memory | Version) -> int:
    """Return the version number in the record."""
    version = record.metadata.get(VERSION)
    return version if isinstance(version, int) else 1


def checked_words(engine: Engine, text: str, *, longest: int) -> str:
    """Return a safe and bounded text. Raises Refused for instructions: a summary is given to every conversation."""
    if len(text) > longest:
        raise ContentTooLarge(
            f"The text has {len(text):,} characters; a summary takes {longest:,}.", advice="Condense it."
        )
    refuse_instructions(text)
    safe = safe_text(engine, text).strip()
    if not safe:
        raise EmptyContent("There is nothing in the text.", advice="Give it some words.")
    return safe


def refuse_instructions(text: str) -> None:
    """Raise Refused for a text that reads like instructions."""
    doubt = suspicion(text)
    if doubt.score >= QUARANTINE_FROM:
        raise Refused(
            f"The text reads like instructions to whoever is given it ({', '.join(doubt.reasons)}).",
            advice="Say what is known about the project, not what a reader is to do.",
        )


def line_of(engine: Engine, entry: str) -> str:
    """Return a list entry as safe text on one line."""
    return " ".join(safe_text(engine, entry).split())


def text_of(engine: Engine, summary: Summary) -> str:
    """Return the text as it is stored."""
    return safe_text(engine, render_summary(summary.knowledge, title=title_of(summary.project)))


def title_of(project: str) -> str:
    """Return the heading of a summary."""
    return f"Summary of {project}"


async def _stated(engine: Engine, held: Memory | None, project: str) -> Summary:
    if held is None:
        return Summary(project)
    stated = summary_of(held, project)
    if not is_by_hand(held):
        return stated
    versions = await engine.store.versions_of(held.id)
    return replace(stated, version=numbered([*versions, held])[-1])


async def _begun(engine: Engine, summary: Summary, *, agent: str) -> Memory:
    """Store the first summary. All share one hash, so that the store accepts one of several at once. Raises Conflict."""
    [prepared] = prepare(engine, _request(engine, summary), agent=agent)
    put = await prepared.embedded_put(engine, content_hash=name_hash(title_of(summary.project)))
    await engine.store.apply([replace(put, gist="")])
    others = [
        record for record in await _records(engine, summary.project, agent=agent) if record.agent == agent
    ]
    if any(record.id != put.memory.id for record in others):  # one that was amended has another hash
        await engine.store.erase([put.memory.id])
        raise Changed(f"The summary of {summary.project!r} was begun by somebody else.", advice="Try again.")
    return put.memory


async def _amended(engine: Engine, held: Memory, summary: Summary, *, agent: str) -> Memory:
    request = AmendInput(
        id=held.id,
        content=text_of(engine, summary),
        occurred=engine.clock(),
        metadata=_metadata(engine, summary),
        expected=moment_of(held),
    )
    try:
        return await amend(engine, request, agent=agent)
    except Changed as error:
        raise Changed(
            f"The summary of {summary.project!r} was changed meanwhile.", advice="Try again."
        ) from error


def _request(engine: Engine, summary: Summary) -> RememberInput:
    return RememberInput(
        content=text_of(engine, summary),
        kind=Kind.CONTEXT,
        scope=summary.project,
        topic=TOPIC,
        importance=0.9,
        anchor=True,
        dialect=PROJECT,
        metadata=_metadata(engine, summary),
        keep_noise=True,
    )


def _metadata(engine: Engine, summary: Summary) -> dict[str, Any]:
    extras = {
        LAST_MESSAGE: summary.last_message,
        TRIGGER: summary.trigger or None,
        MERGED_BY: summary.merged_by or None,
        RESTORED: summary.restored,
    }
    return {
        SUMMARY_OF: summary.project,
        VERSION: summary.version,
        WRITTEN: content_hash(text_of(engine, summary)),
        **summary.knowledge.as_metadata(),
        **{name: value for name, value in extras.items() if value is not None},
    }


async def _records(engine: Engine, scope: str, *, agent: str) -> list[Memory]:
    where = Filter(
        viewer=agent, scopes=(scope,), kinds=(Kind.CONTEXT,), topic=TOPIC, minimum_trust=LEAST_TRUST
    )
    return [memory for memory in await engine.store.find(where) if SUMMARY_OF in memory.metadata]


def _text_at(value: Any) -> str | None:
    return value if isinstance(value, str) else None

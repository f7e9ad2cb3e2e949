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
BY_HAND = "hand"  # what somebody else than these use cases made of it
NOTHING = "0-none"  # the tag of a summary that isn't there
ANY = "*"  # stands for the tag of any that is
LONGEST_SUMMARY = 12_000
PATIENCE = 15.0  # seconds for which other processes may be faster, again and again
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known about a project; version 0 while nothing is."""

    project: str
    text: str = ""
    knowledge: SummaryKnowledge = field(default_factory=SummaryKnowledge)
    version: int = 0
    updated: datetime | None = None
    last_message: str | None = None  # up to which messages, in the order of their saving, were worked in
    trigger: str = ""
    merged_by: str = ""
    restored: int | None = None  # the version that it was taken from again
    memory: str | None = None  # the record that holds it
    indexed: bool = False  # whether it is found by meaning

    @property
    def etag(self) -> str:
        """Another one for everything else that it may say."""
        return f"{self.version}-{content_hash(self.text)[:8]}" if self.memory else NOTHING


async def project_summary(engine: Engine, project: str | None, *, agent: str) -> Summary:
    """What is known. Raises ScopeNotFound."""
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
    """Make another summary of the one that is there; `change` is asked again when somebody else changed it meanwhile.
    It works in a thread.

    Within this process writers take turns. Other processes are met with pauses that grow, by chance, so that each of them gets
    in at last. Raises Changed when it isn't the `expected` one at that moment, Refused when it would instruct its reader.
    """
    async with engine.summary_locks.of(scope):
        return await _written(engine, scope, change, agent=agent, expected=expected)


async def _written(
    engine: Engine, scope: str, change: Callable[[Summary], Summary], *, agent: str, expected: str | None
) -> Summary:
    # A summary is one record, however long other texts may be before they are split.
    longer = max(engine.settings.intake.part_length, LONGEST_SUMMARY + 2 * len(title_of(scope)))
    roomy = engine.with_settings(intake=replace(engine.settings.intake, part_length=longer))
    clock = asyncio.get_running_loop().time
    until, pause = clock() + PATIENCE, SHORTEST_PAUSE
    while True:
        held = await held_summary(engine, scope, agent=agent)
        before = await _stated(engine, held, scope)
        check_expected(before, expected)
        after = replace(await asyncio.to_thread(change, before), version=before.version + 1)
        refuse_instructions(text_of(engine, after))
        try:
            if held is None:
                return summary_of(await _begun(roomy, after, agent=agent), scope)
            return summary_of(await _amended(roomy, held, after, agent=agent), scope)
        except Conflict as error:
            faster = held is None or isinstance(error, Changed)  # somebody else was
            if not faster or clock() > until:
                raise
        await asyncio.sleep(random.uniform(0, pause))
        pause = min(2 * pause, LONGEST_PAUSE)


def check_expected(summary: Summary, expected: str | None) -> None:
    """Raises Changed when it is another one than the caller had read."""
    if expected is None or expected == summary.etag or (expected == ANY and summary.memory):
        return
    raise Changed(
        f"The summary of {summary.project!r} is another one by now: {summary.etag}.",
        advice="Read it again, then try again.",
    )


async def held_summary(engine: Engine, scope: str, *, agent: str) -> Memory | None:
    """The record that holds it; the agent's own before a shared one."""
    found = await _records(engine, scope, agent=agent)
    order = (agent, DEFAULT_AGENT)

    def rank(memory: Memory) -> tuple[int, str]:
        return order.index(memory.agent) if memory.agent in order else len(order), memory.id

    return min(found, key=rank, default=None)


def summary_of(record: Memory | Version, project: str) -> Summary:
    """As it was written; where somebody amended the text by hand, that text is the narrative."""
    metadata = record.metadata
    knowledge = SummaryKnowledge.of_metadata(metadata)
    by = metadata.get(MERGED_BY)
    if is_by_hand(record):
        knowledge = SummaryKnowledge(narrative=record.content.removeprefix(f"# {title_of(project)}").strip())
        by = BY_HAND
    restored = metadata.get(RESTORED)
    told = Summary(
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
        return replace(told, memory=record.memory_id)
    return replace(told, memory=record.id, updated=record.updated, indexed=record.embedded_by is not None)


def numbered(records: Sequence[Memory | Version]) -> list[int]:
    """The version that each of a summary's records is, oldest first: an amendment by hand is one more, unless the text stayed."""
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
    """Whether somebody amended its text."""
    return record.metadata.get(WRITTEN) != content_hash(record.content)


def noted_version(record: Memory | Version) -> int:
    """The one that it was written as."""
    version = record.metadata.get(VERSION)
    return version if isinstance(version, int) else 1


def checked_words(engine: Engine, text: str, *, longest: int) -> str:
    """Safe and bounded, and nothing that instructs its reader: a summary is given to every conversation."""
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
    """Raises Refused for what reads like them."""
    doubt = suspicion(text)
    if doubt.score >= QUARANTINE_FROM:
        raise Refused(
            f"The text reads like instructions to whoever is given it ({', '.join(doubt.reasons)}).",
            advice="Say what is known about the project, not what a reader is to do.",
        )


def line_of(engine: Engine, entry: str) -> str:
    """An entry of a list: safe, and on one line."""
    return " ".join(safe_text(engine, entry).split())


def text_of(engine: Engine, summary: Summary) -> str:
    """As it is kept."""
    return safe_text(engine, render_summary(summary.knowledge, title=title_of(summary.project)))


def title_of(project: str) -> str:
    """What stands above it."""
    return f"Summary of {project}"


async def _stated(engine: Engine, held: Memory | None, project: str) -> Summary:
    if held is None:
        return Summary(project)
    stated = summary_of(held, project)
    if not is_by_hand(held):
        return stated
    kept = await engine.store.versions_of(held.id)
    return replace(stated, version=numbered([*kept, held])[-1])


async def _begun(engine: Engine, summary: Summary, *, agent: str) -> Memory:
    """The first. One hash for all of them: of several at once the store takes one. Raises Conflict."""
    [prepared] = prepare(engine, _request(engine, summary), agent=agent)
    put = await prepared.embedded_put(engine, content_hash=name_hash(title_of(summary.project)))
    await engine.store.apply([replace(put, gist="")])
    others = [one for one in await _records(engine, summary.project, agent=agent) if one.agent == agent]
    if any(one.id != put.memory.id for one in others):  # one that has been amended since has another hash
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

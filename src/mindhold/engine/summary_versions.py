"""All that a project's summary has said: its versions, what differs between two of them, and one of them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import unified_diff

from mindhold.engine.core import Engine
from mindhold.engine.draft import QUARANTINE_FROM
from mindhold.engine.insights import HEADINGS, Knowledge
from mindhold.engine.projects import (
    Summary,
    held_summary,
    numbered,
    open_project,
    summary_of,
    write_summary,
)
from mindhold.engine.text.suspicion import suspicion
from mindhold.engine.versions import WITHHELD
from mindhold.model.errors import Refused, VersionNotFound
from mindhold.model.memory import Memory, Version

NARRATIVE = "summary"  # as callers know it
RESTORED_BY = "restored"


@dataclass(frozen=True, slots=True)
class Edition:
    """One version: what it said, from when to when (None: now), by whom; `withheld` where it instructed its reader."""

    summary: Summary
    since: datetime
    until: datetime | None
    by: str
    withheld: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """What came and what went, in one section."""

    section: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two versions held against each other, as text and by sections; those that say the same are absent."""

    project: str
    earlier: int
    later: int
    text: str
    sections: tuple[Difference, ...]


async def summary_versions(engine: Engine, project: str | None, *, agent: str) -> tuple[str, list[Edition]]:
    """The project's name, and every version, oldest first; none while there is no summary. Raises ScopeNotFound.

    What they said is as it is kept: who gives it to anybody takes summary_version.
    """
    name = (await open_project(engine, project)).name
    held = await held_summary(engine, name, agent=agent)
    if held is None:
        return name, []
    return name, _editions([*await engine.store.versions_of(held.id), held], held, name)


async def summary_version(engine: Engine, project: str | None, version: int, *, agent: str) -> Edition:
    """Raises ScopeNotFound, VersionNotFound."""
    name, editions = await summary_versions(engine, project, agent=agent)
    return _one(editions, version, name)


async def summary_diff(
    engine: Engine, project: str | None, *, earlier: int | None, later: int | None, agent: str
) -> Compared:
    """The latest against the one before unless told otherwise; version 0 said nothing. Raises ScopeNotFound, VersionNotFound."""
    name, editions = await summary_versions(engine, project, agent=agent)
    latest = editions[-1].summary.version if editions else 0
    to = latest if later is None else later
    numbers = [one.summary.version for one in editions if one.summary.version < to]
    of = (numbers[-1] if numbers else 0) if earlier is None else earlier
    return compared(_text(editions, of, name), _text(editions, to, name))


async def restore_summary(
    engine: Engine, project: str | None, version: int, *, agent: str, expected: str | None = None
) -> Summary:
    """A new version that says what that one said, and knows of the messages that it knew of: the mark goes back with it, so
    that the next update reads again what was said since then.

    Raises ScopeNotFound, VersionNotFound, Refused, Changed.
    """
    scope = await open_project(engine, project, writing=True)
    edition = await summary_version(engine, scope.name, version, agent=agent)
    if edition.withheld:
        raise Refused(
            f"Version {version} reads like instructions to its reader.", advice="Write the summary anew."
        )
    old = edition.summary

    def again(now: Summary) -> Summary:
        return replace(
            now,
            knowledge=old.knowledge,
            last_message=old.last_message,
            trigger="",
            merged_by=RESTORED_BY,
            restored=version,
        )

    return await write_summary(engine, scope.name, again, agent=agent, expected=expected)


def compared(earlier: Summary, later: Summary) -> Compared:
    """Pure."""
    lines = unified_diff(
        earlier.text.splitlines(),
        later.text.splitlines(),
        f"version {earlier.version}",
        f"version {later.version}",
        lineterm="",
    )
    before, after = _sections(earlier.knowledge), _sections(later.knowledge)
    differences = (
        Difference(name, _missing(after[name], before[name]), _missing(before[name], after[name]))
        for name in before
    )
    return Compared(
        later.project,
        earlier.version,
        later.version,
        "\n".join(lines),
        tuple(one for one in differences if one.added or one.removed),
    )


def _editions(records: Sequence[Memory | Version], held: Memory, project: str) -> list[Edition]:
    """A record is kept with the time and the name of who ended it; the next one is that person's."""
    editions: list[Edition] = []
    since, by = held.created, held.agent
    for record, number in zip(records, numbered(records), strict=True):
        said = replace(summary_of(record, project), version=number)
        until = record.amended if isinstance(record, Version) else None
        if (
            editions and editions[-1].summary.version == number
        ):  # its text stayed: it is the same version still
            first = editions.pop()
            since, by = first.since, first.by
        editions.append(Edition(replace(said, updated=since), since, until, by))
        if isinstance(record, Version):
            since, by = record.amended, record.amended_by
    return editions


def _one(editions: Sequence[Edition], version: int, project: str) -> Edition:
    for edition in editions:
        if edition.summary.version == version:
            said = edition.summary
            if suspicion(said.text).score < QUARANTINE_FROM:
                return edition
            return replace(
                edition, summary=replace(said, text=WITHHELD, knowledge=Knowledge()), withheld=True
            )
    raise VersionNotFound(version, project)


def _text(editions: Sequence[Edition], version: int, project: str) -> Summary:
    return Summary(project) if version == 0 else _one(editions, version, project).summary


def _sections(knowledge: Knowledge) -> dict[str, tuple[str, ...]]:
    paragraphs = tuple(one.strip() for one in knowledge.narrative.split("\n\n") if one.strip())
    return {NARRATIVE: paragraphs, **{name: knowledge.entries(name) for name in HEADINGS}}


def _missing(these: Sequence[str], those: Sequence[str]) -> tuple[str, ...]:
    known = frozenset(those)
    return tuple(one for one in these if one not in known)

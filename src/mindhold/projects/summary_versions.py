"""The versions of a project summary: list, show, compare and restore them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import unified_diff
from typing import Any

from pydantic import Field

from mindhold.memories.prepare import LARGEST_NUMBER, QUARANTINE_FROM
from mindhold.memories.versions import WITHHELD
from mindhold.memories.views import decode_cursor, encode_cursor, unreadable_cursor
from mindhold.model.errors import Refused, VersionNotFound
from mindhold.model.memory import Memory, Version
from mindhold.model.query import PagePosition
from mindhold.operations import Context, Output, operation
from mindhold.projects.placement import ProjectId, ProjectInput, StorageBackend, mode_of, open_project
from mindhold.projects.summary import (
    HEADINGS,
    Summary,
    SummaryKnowledge,
    held_summary,
    numbered,
    summary_of,
    write_summary,
)
from mindhold.projects.summary_update import (
    Decisions,
    Gotchas,
    LastMessage,
    Patterns,
    ReplaceSummaryResult,
    SummaryLength,
    SummaryText,
    TechStack,
    as_it_is,
    sections_of,
)
from mindhold.text.injection import suspicion

NARRATIVE = "summary"  # the name that callers know
RESTORED_BY = "restored"
LISTING = "summary_versions"


class SummaryVersionsInput(ProjectInput):
    """Which project, and how many versions at most: the latest first."""

    limit: int = Field(default=50, ge=1, le=200, description="Maximum number of results.", examples=[2])
    cursor: str | None = Field(default=None, description="`next` of the previous page.")


class SummaryEditionView(Output):
    """One version, without what it said: from when to when (None: now) and by whom.

    `merged_by` is rules, model, replaced, restored, or hand for what somebody amended past all of these.
    """

    version: int = Field(description="Version number.", examples=[14])
    summary_length: SummaryLength
    last_updated: datetime = Field(description="When it was last updated.", examples=["2025-11-26T09:30:00Z"])
    replaced_at: datetime | None = Field(
        default=None,
        description="When it was replaced; null for the current version.",
        examples=["2025-11-27T11:00:00Z"],
    )
    by: str = Field(examples=["default"])
    trigger: str = Field(default="", description="What triggered the update.", examples=["session_end"])
    merged_by: str = Field(default="", description="What merged it: `model` or `rules`.", examples=["rules"])
    restored_version: int | None = Field(
        default=None, description="The version that was restored.", examples=[None]
    )
    last_summarized_message_id: LastMessage = None
    current: bool = Field(description="Whether it is the current version.", examples=[False])


class SummaryVersionsResult(Output):
    """The latest first. `next` is the cursor of the next page."""

    project_id: ProjectId
    versions: list[SummaryEditionView] = Field(
        description="Its versions.",
        examples=[
            [
                {
                    "version": 15,
                    "last_updated": "2025-11-27T11:00:00Z",
                    "replaced_at": None,
                    "trigger": "task_complete",
                    "current": True,
                },
                {},
            ]
        ],
    )
    count: int = Field(description="Number of items in this answer.", examples=[2])  # of all versions
    next: str | None = Field(
        default=None, description="The `cursor` of the next page; null on the last page.", examples=[None]
    )
    storage_backend: StorageBackend


class SummaryVersionInput(ProjectInput):
    """Which version of which project's summary."""

    version: int = Field(ge=1, le=LARGEST_NUMBER, description="Version number.", examples=[14])


class SummaryVersionResult(SummaryEditionView):
    """What it said. Of a version that instructed its reader the words are withheld."""

    project_id: ProjectId
    summary: SummaryText
    key_decisions: Decisions
    tech_stack: TechStack
    patterns: Patterns
    gotchas: Gotchas
    withheld: bool = Field(default=False, examples=[False])
    storage_backend: StorageBackend


class SummaryDiffInput(ProjectInput):
    """Which two versions: the latest and the one before unless told otherwise. Version 0 said nothing."""

    from_version: int | None = Field(
        default=None, ge=0, le=LARGEST_NUMBER, description="The older version.", examples=[14]
    )
    to_version: int | None = Field(
        default=None, ge=0, le=LARGEST_NUMBER, description="The newer version.", examples=[15]
    )


class SectionChangeView(Output):
    """What came and what went in one section; of the narrative, whole paragraphs."""

    section: str = Field(examples=["key_decisions"])
    added: list[str] = Field(examples=[["Implemented JWT authentication"]])
    removed: list[str] = Field(examples=[[]])


class SummaryDiffResult(Output):
    """The difference as a unified diff of the text, and by sections; both are empty where there is none."""

    project_id: ProjectId
    from_version: int = Field(examples=[14])
    to_version: int = Field(examples=[15])
    diff: str = Field(
        description="A unified diff; empty if nothing differs.",
        examples=[
            "--- version 14\n+++ version 15\n@@ -5,2 +5,3 @@\n ## Key decisions\n - Chose MongoDB Atlas for scalability\n+- Implemented JWT authentication"
        ],
    )
    sections: list[SectionChangeView]
    storage_backend: StorageBackend


class RestoreSummaryInput(ProjectInput):
    """Which version of which project's summary. `expected` is the `etag` of the present one, or "*" for any."""

    version: int = Field(ge=1, le=LARGEST_NUMBER, description="Version number.", examples=[14])
    expected: str | None = None


class RestoreSummaryResult(ReplaceSummaryResult):
    """The summary as it is now, the whole text as it is shown: a new version that says what the old one said."""

    restored_version: int = Field(description="The version that was restored.", examples=[14])


@dataclass(frozen=True, slots=True)
class _Edition:
    """One version: its summary, its period (None: now) and its author; `withheld` if it reads like instructions."""

    summary: Summary
    since: datetime
    until: datetime | None
    by: str
    withheld: bool = False


async def _editions(context: Context, project: str | None) -> tuple[str, list[_Edition]]:
    """Return the project's name and every version, oldest first; none without a summary. Raises ScopeNotFound.

    A stored version names the time and the author of the next one. The texts are unchecked: use _edition for one that is
    shown.
    """
    name = (await open_project(context.engine, project)).name
    held = await held_summary(context.engine, name, agent=context.agent)
    editions: list[_Edition] = []
    if held is None:
        return name, editions
    records: list[Memory | Version] = [*await context.engine.store.versions_of(held.id), held]
    since, by = held.created, held.agent
    for record, number in zip(records, numbered(records), strict=True):
        until = record.amended if isinstance(record, Version) else None
        if editions and editions[-1].summary.version == number:  # the same text is the same version
            first = editions.pop()
            since, by = first.since, first.by
        summary = replace(summary_of(record, name), version=number, updated=since)
        editions.append(_Edition(summary, since, until, by))
        if isinstance(record, Version):
            since, by = record.amended, record.amended_by
    return name, editions


def _edition(editions: Sequence[_Edition], version: int, project: str) -> _Edition:
    """Return one version, without its words if they read like instructions. Raises VersionNotFound."""
    for edition in editions:
        summary = edition.summary
        if summary.version == version:
            if suspicion(summary.text).score < QUARANTINE_FROM:
                return edition
            blank = replace(summary, text=WITHHELD, knowledge=SummaryKnowledge())
            return replace(edition, summary=blank, withheld=True)
    raise VersionNotFound(version, project)


def _edition_fields(edition: _Edition) -> dict[str, Any]:
    summary = edition.summary
    return {
        "version": summary.version,
        "summary_length": len(summary.text),
        "last_updated": edition.since,
        "replaced_at": edition.until,
        "by": edition.by,
        "trigger": summary.trigger,
        "merged_by": summary.merged_by,
        "restored_version": summary.restored,
        "last_summarized_message_id": summary.last_message,
        "current": edition.until is None,
    }


async def _versions(context: Context, request: SummaryVersionsInput) -> SummaryVersionsResult:
    """Every version of a project's summary."""
    project, editions = await _editions(context, request.project)
    before = LARGEST_NUMBER + 1 if request.cursor is None else _number(request.cursor)
    waiting = [edition for edition in reversed(editions) if edition.summary.version < before]
    page = waiting[: request.limit]
    more = len(waiting) > len(page)
    return SummaryVersionsResult(
        project_id=project,
        versions=[SummaryEditionView(**_edition_fields(edition)) for edition in page],
        count=len(editions),
        next=encode_cursor(LISTING, PagePosition(page[-1].summary.version, "")) if more else None,
        storage_backend=await mode_of(context.engine, project),
    )


SUMMARY_VERSIONS = operation("summary_versions", _versions, reads=True)


def _number(cursor: str) -> int:
    value, _ = decode_cursor(LISTING, cursor)
    if type(value) is not int:
        raise unreadable_cursor()
    return value


async def _version(context: Context, request: SummaryVersionInput) -> SummaryVersionResult:
    """What one version of a project's summary said."""
    project, editions = await _editions(context, request.project)
    edition = _edition(editions, request.version, project)
    return SummaryVersionResult(
        **_edition_fields(edition),
        project_id=project,
        summary=edition.summary.text,
        **sections_of(edition.summary),
        withheld=edition.withheld,
        storage_backend=await mode_of(context.engine, project),
    )


SUMMARY_VERSION = operation("summary_version", _version, reads=True)


async def _diff(context: Context, request: SummaryDiffInput) -> SummaryDiffResult:
    """What differs between two versions of a project's summary."""
    project, editions = await _editions(context, request.project)
    numbers = [0, *(edition.summary.version for edition in editions)]
    to = numbers[-1] if request.to_version is None else request.to_version
    of = request.from_version
    if of is None:
        of = max((number for number in numbers if number < to), default=0)
    earlier, later = (
        _edition(editions, number, project).summary if number else Summary(project) for number in (of, to)
    )
    lines = unified_diff(
        earlier.text.splitlines(), later.text.splitlines(), f"version {of}", f"version {to}", lineterm=""
    )
    old, new = _sections(earlier.knowledge), _sections(later.knowledge)
    changes = (
        SectionChangeView(
            section=name,
            added=[text for text in new[name] if text not in old[name]],
            removed=[text for text in old[name] if text not in new[name]],
        )
        for name in old
    )
    return SummaryDiffResult(
        project_id=project,
        from_version=of,
        to_version=to,
        diff="\n".join(lines),
        sections=[change for change in changes if change.added or change.removed],
        storage_backend=await mode_of(context.engine, project),
    )


SUMMARY_DIFF = operation("summary_diff", _diff, reads=True)


def _sections(knowledge: SummaryKnowledge) -> dict[str, Sequence[str]]:
    paragraphs = list(filter(None, map(str.strip, knowledge.narrative.split("\n\n"))))
    return {NARRATIVE: paragraphs, **{name: knowledge.entries(name) for name in HEADINGS}}


async def _restore(context: Context, request: RestoreSummaryInput) -> RestoreSummaryResult:
    """Make a new version of a project's summary that says what an old one said.

    It has the old one's mark too: the next update reads the messages since then. Raises ScopeNotFound, VersionNotFound,
    Refused, Changed.
    """
    engine, version = context.engine, request.version
    scope = await open_project(engine, request.project, writing=True)
    _, editions = await _editions(context, scope.name)
    edition = _edition(editions, version, scope.name)
    if edition.withheld:
        raise Refused(
            f"Version {version} reads like instructions to its reader.", advice="Write the summary anew."
        )
    old = edition.summary

    def restore(now: Summary) -> Summary:
        return replace(
            now,
            knowledge=old.knowledge,
            last_message=old.last_message,
            sources=old.sources,
            trigger="",
            merged_by=RESTORED_BY,
            restored=version,
        )

    summary = await write_summary(engine, scope.name, restore, agent=context.agent, expected=request.expected)
    # The whole text: a summary that was only updated has no narrative, just lists.
    values = {**await as_it_is(context, summary), "summary": summary.text}
    return RestoreSummaryResult(**values, restored_version=version)


RESTORE_SUMMARY = operation("restore_summary", _restore, writes=True)

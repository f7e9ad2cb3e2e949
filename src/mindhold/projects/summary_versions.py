"""The versions of a project summary: list, show, compare and restore them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import unified_diff
from typing import Any

from pydantic import Field

from mindhold.engine import Engine
from mindhold.memories.prepare import LARGEST_NUMBER, QUARANTINE_FROM
from mindhold.memories.versions import WITHHELD
from mindhold.memories.views import decode_cursor, encode_cursor, unreadable_cursor
from mindhold.model.errors import Refused, VersionNotFound
from mindhold.model.memory import Memory, Version
from mindhold.model.query import PagePosition
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.placement import mode_of, open_project
from mindhold.projects.summary import (
    HEADINGS,
    Summary,
    SummaryKnowledge,
    held_summary,
    numbered,
    summary_of,
    write_summary,
)
from mindhold.projects.summary_update import ReplaceSummaryResult, as_it_is, sections_of
from mindhold.text.injection import suspicion

NARRATIVE = "summary"  # the name that callers know
RESTORED_BY = "restored"


@dataclass(frozen=True, slots=True)
class SummaryEdition:
    """One version: its summary, its period (None: now) and its author; `withheld` if it reads like instructions."""

    summary: Summary
    since: datetime
    until: datetime | None
    by: str
    withheld: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """The entries that were added and removed in one section."""

    section: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SummaryComparison:
    """The difference of two versions, as text and by section; equal sections are left out."""

    project: str
    earlier: int
    later: int
    text: str
    sections: tuple[Difference, ...]


async def summary_versions(
    engine: Engine, project: str | None, *, agent: str
) -> tuple[str, list[SummaryEdition]]:
    """Return the project's name and every version, oldest first; none without a summary. Raises ScopeNotFound.

    The texts are unchecked: use summary_version for one that is shown.
    """
    name = (await open_project(engine, project)).name
    record = await held_summary(engine, name, agent=agent)
    if record is None:
        return name, []
    return name, _editions([*await engine.store.versions_of(record.id), record], record, name)


async def summary_version(engine: Engine, project: str | None, version: int, *, agent: str) -> SummaryEdition:
    """Return one version. Raises ScopeNotFound, VersionNotFound."""
    name, editions = await summary_versions(engine, project, agent=agent)
    return _one(editions, version, name)


async def summary_diff(
    engine: Engine, project: str | None, *, earlier: int | None, later: int | None, agent: str
) -> SummaryComparison:
    """Compare two versions, by default the latest and the one before; version 0 is empty.

    Raises ScopeNotFound, VersionNotFound.
    """
    name, editions = await summary_versions(engine, project, agent=agent)
    latest = editions[-1].summary.version if editions else 0
    to = latest if later is None else later
    numbers = [edition.summary.version for edition in editions if edition.summary.version < to]
    of = (numbers[-1] if numbers else 0) if earlier is None else earlier
    return compare_summaries(_text(editions, of, name), _text(editions, to, name))


async def restore_summary(
    engine: Engine, project: str | None, version: int, *, agent: str, expected: str | None = None
) -> Summary:
    """Write a new version with the text and the mark of an old one; the next update reads the messages since that mark.

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


def compare_summaries(earlier: Summary, later: Summary) -> SummaryComparison:
    """Compare two summaries, as text and by section."""
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
    return SummaryComparison(
        later.project,
        earlier.version,
        later.version,
        "\n".join(lines),
        tuple(difference for difference in differences if difference.added or difference.removed),
    )


def _editions(records: Sequence[Memory | Version], held: Memory, project: str) -> list[SummaryEdition]:
    """Return the versions with periods and authors: a stored version names the time and the author of the next one."""
    editions: list[SummaryEdition] = []
    since, by = held.created, held.agent
    for record, number in zip(records, numbered(records), strict=True):
        summary = replace(summary_of(record, project), version=number)
        until = record.amended if isinstance(record, Version) else None
        if (
            editions and editions[-1].summary.version == number
        ):  # the text stayed the same: it is the same version
            first = editions.pop()
            since, by = first.since, first.by
        editions.append(SummaryEdition(replace(summary, updated=since), since, until, by))
        if isinstance(record, Version):
            since, by = record.amended, record.amended_by
    return editions


def _one(editions: Sequence[SummaryEdition], version: int, project: str) -> SummaryEdition:
    for edition in editions:
        if edition.summary.version == version:
            summary = edition.summary
            if suspicion(summary.text).score < QUARANTINE_FROM:
                return edition
            return replace(
                edition, summary=replace(summary, text=WITHHELD, knowledge=SummaryKnowledge()), withheld=True
            )
    raise VersionNotFound(version, project)


def _text(editions: Sequence[SummaryEdition], version: int, project: str) -> Summary:
    return Summary(project) if version == 0 else _one(editions, version, project).summary


def _sections(knowledge: SummaryKnowledge) -> dict[str, tuple[str, ...]]:
    paragraphs = tuple(
        paragraph.strip() for paragraph in knowledge.narrative.split("\n\n") if paragraph.strip()
    )
    return {NARRATIVE: paragraphs, **{name: knowledge.entries(name) for name in HEADINGS}}


def _missing(these: Sequence[str], those: Sequence[str]) -> tuple[str, ...]:
    present = frozenset(those)
    return tuple(text for text in these if text not in present)


LISTING = "summary_versions"


class SummaryVersionsInput(Input):
    """Which project, and how many versions at most: the latest first."""

    project: str | None = Field(
        default=None, description="The project's id, which is its name.", examples=["proj_123"]
    )
    limit: int = Field(default=50, ge=1, le=200, description="Maximum number of results.", examples=[2])
    cursor: str | None = Field(default=None, description="`next` of the previous page.")


class SummaryEditionView(Output):
    """One version, without what it said: from when to when (None: now) and by whom.

    `merged_by` is rules, model, replaced, restored, or hand for what somebody amended past all of these.
    """

    version: int = Field(description="Version number.", examples=[14])
    summary_length: int = Field(description="Length of the summary in characters.", examples=[145])
    last_updated: datetime = Field(description="When it was last updated.", examples=["2025-11-26T09:30:00Z"])
    replaced_at: datetime | None = Field(
        default=None,
        description="When it was replaced; null for the current version.",
        examples=["2025-11-27T11:00:00Z"],
    )
    by: str = Field(examples=["default"])
    trigger: str = Field(default="", description="What triggered the update.", examples=["session_end"])
    merged_by: str = Field(
        default="",
        description="What merged it: `model` or `rules`.",
        examples=["rules"],
    )
    restored_version: int | None = Field(
        default=None, description="The version that was restored.", examples=[None]
    )
    last_summarized_message_id: str | None = Field(
        default=None,
        description="Id of the last message that the summary covers; the next update continues from there.",
        examples=["01k2v9c3m4q8r7t6w5x1y0z2ac"],
    )
    current: bool = Field(description="Whether it is the current version.", examples=[False])


class SummaryVersionsResult(Output):
    """The latest first. `next` is the cursor of the next page."""

    project_id: str = Field(description="The project's id, which is its name.", examples=["proj_123"])
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
    count: int = Field(description="Number of items in this answer.", examples=[2])  # of all that there are
    next: str | None = Field(
        default=None,
        description="The `cursor` of the next page; null on the last page.",
        examples=[None],
    )
    storage_backend: str = Field(
        description="Where the project's memory is stored: `local`, `mongodb` or `postgres`.",
        examples=["local"],
    )


class SummaryVersionInput(Input):
    """Which version of which project's summary."""

    project: str | None = Field(
        default=None, description="The project's id, which is its name.", examples=["proj_123"]
    )
    version: int = Field(ge=1, le=LARGEST_NUMBER, description="Version number.", examples=[14])


class SummaryVersionResult(SummaryEditionView):
    """What it said. Of a version that instructed its reader the words are withheld."""

    project_id: str = Field(description="The project's id, which is its name.", examples=["proj_123"])
    summary: str = Field(
        description="The summary.",
        examples=[
            "# Summary of proj_123\n\nThis is a task management system.\n\n## Key decisions\n- Chose MongoDB Atlas for scalability\n- Implemented JWT authentication"
        ],
    )
    key_decisions: list[str] = Field(
        description="Decisions and their reasons.",
        examples=[["Chose MongoDB Atlas for scalability", "Implemented JWT authentication"]],
    )
    tech_stack: list[str] = Field(
        description="Technologies that the project uses.", examples=[["Python", "FastAPI"]]
    )
    patterns: list[str] = Field(
        description="Conventions and patterns of the project.",
        examples=[["Repository pattern for data access"]],
    )
    gotchas: list[str] = Field(description="Pitfalls.", examples=[["Check storage_mode before logging"]])
    withheld: bool = Field(default=False, examples=[False])
    storage_backend: str = Field(
        description="Where the project's memory is stored: `local`, `mongodb` or `postgres`.",
        examples=["local"],
    )


class SummaryDiffInput(Input):
    """Which two versions: the latest and the one before unless told otherwise. Version 0 said nothing."""

    project: str | None = Field(
        default=None, description="The project's id, which is its name.", examples=["proj_123"]
    )
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

    project_id: str = Field(description="The project's id, which is its name.", examples=["proj_123"])
    from_version: int = Field(examples=[14])
    to_version: int = Field(examples=[15])
    diff: str = Field(
        description="A unified diff; empty if nothing differs.",
        examples=[
            "--- version 14\n+++ version 15\n@@ -5,2 +5,3 @@\n ## Key decisions\n - Chose MongoDB Atlas for scalability\n+- Implemented JWT authentication"
        ],
    )
    sections: list[SectionChangeView]
    storage_backend: str = Field(
        description="Where the project's memory is stored: `local`, `mongodb` or `postgres`.",
        examples=["local"],
    )


class RestoreSummaryInput(Input):
    """Which version of which project's summary. `expected` is the `etag` of the present one, or "*" for any."""

    project: str | None = Field(
        default=None, description="The project's id, which is its name.", examples=["proj_123"]
    )
    version: int = Field(ge=1, le=LARGEST_NUMBER, description="Version number.", examples=[14])
    expected: str | None = None


class RestoreSummaryResult(ReplaceSummaryResult):
    """The summary as it is now, the whole text as it is shown: a new version that says what the old one said."""

    restored_version: int = Field(description="The version that was restored.", examples=[14])


async def _versions(context: Context, request: SummaryVersionsInput) -> SummaryVersionsResult:
    """Every version of a project's summary."""
    project, editions = await summary_versions(context.engine, request.project, agent=context.agent)
    before = LARGEST_NUMBER + 1 if request.cursor is None else _number(request.cursor)
    waiting = [edition for edition in reversed(editions) if edition.summary.version < before]
    page = waiting[: request.limit]
    more = len(waiting) > len(page)
    return SummaryVersionsResult(
        project_id=project,
        versions=[SummaryEditionView(**_edition(edition)) for edition in page],
        count=len(editions),
        next=encode_cursor(LISTING, PagePosition(page[-1].summary.version, "")) if more else None,
        storage_backend=await mode_of(context.engine, project),
    )


SUMMARY_VERSIONS = operation("summary_versions", _versions, reads=True)


async def _version(context: Context, request: SummaryVersionInput) -> SummaryVersionResult:
    """What one version of a project's summary said."""
    edition = await summary_version(context.engine, request.project, request.version, agent=context.agent)
    summary = edition.summary
    return SummaryVersionResult(
        **_edition(edition),
        project_id=summary.project,
        summary=summary.text,
        **sections_of(summary),
        withheld=edition.withheld,
        storage_backend=await mode_of(context.engine, summary.project),
    )


SUMMARY_VERSION = operation("summary_version", _version, reads=True)


async def _diff(context: Context, request: SummaryDiffInput) -> SummaryDiffResult:
    """What differs between two versions of a project's summary."""
    comparison = await summary_diff(
        context.engine,
        request.project,
        earlier=request.from_version,
        later=request.to_version,
        agent=context.agent,
    )
    return SummaryDiffResult(
        project_id=comparison.project,
        from_version=comparison.earlier,
        to_version=comparison.later,
        diff=comparison.text,
        sections=[
            SectionChangeView(section=change.section, added=list(change.added), removed=list(change.removed))
            for change in comparison.sections
        ],
        storage_backend=await mode_of(context.engine, comparison.project),
    )


SUMMARY_DIFF = operation("summary_diff", _diff, reads=True)


async def _restore(context: Context, request: RestoreSummaryInput) -> RestoreSummaryResult:
    """Make a new version of a project's summary that says what an old one said."""
    summary = await restore_summary(
        context.engine, request.project, request.version, agent=context.agent, expected=request.expected
    )
    # The whole text: a summary that was only updated has no narrative, just lists.
    values = {**await as_it_is(context, summary), "summary": summary.text}
    return RestoreSummaryResult(**values, restored_version=request.version)


RESTORE_SUMMARY = operation("restore_summary", _restore, writes=True)


def _edition(edition: SummaryEdition) -> dict[str, Any]:
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


def _number(cursor: str) -> int:
    value, _ = decode_cursor(LISTING, cursor)
    if type(value) is not int:
        raise unreadable_cursor()
    return value

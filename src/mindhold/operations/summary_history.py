"""Operations on all that a project's summary has said: its versions, what differs between them, and one of them again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from mindhold.engine.checks import LARGEST_NUMBER
from mindhold.engine.housing import mode_of
from mindhold.engine.summary_versions import (
    Edition,
    restore_summary,
    summary_diff,
    summary_version,
    summary_versions,
)
from mindhold.model.query import Spot
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.paging import decoded, encoded, unreadable
from mindhold.operations.summaries import ReplaceSummaryResult, as_it_is, sections_of

LISTING = "summary_versions"


class SummaryVersionsInput(Input):
    """Which project, and how many versions at most: the latest first."""

    project: str | None = None
    limit: int = Field(default=50, ge=1, le=200)
    cursor: str | None = None


class SummaryEditionView(Output):
    """One version, without what it said: from when to when (None: now) and by whom.

    `merged_by` is rules, model, replaced, restored, or hand for what somebody amended past all of these.
    """

    version: int
    summary_length: int
    last_updated: datetime
    replaced_at: datetime | None = None
    by: str
    trigger: str = ""
    merged_by: str = ""
    restored_version: int | None = None
    last_summarized_message_id: str | None = None
    current: bool


class SummaryVersionsResult(Output):
    """The latest first. `next` is the cursor of the next page."""

    project_id: str
    versions: list[SummaryEditionView]
    count: int  # of all that there are
    next: str | None = None
    storage_backend: str


class SummaryVersionInput(Input):
    """Which version of which project's summary."""

    project: str | None = None
    version: int = Field(ge=1, le=LARGEST_NUMBER)


class SummaryVersionResult(SummaryEditionView):
    """What it said. Of a version that instructed its reader the words are withheld."""

    project_id: str
    summary: str
    key_decisions: list[str]
    tech_stack: list[str]
    patterns: list[str]
    gotchas: list[str]
    withheld: bool = False
    storage_backend: str


class SummaryDiffInput(Input):
    """Which two versions: the latest and the one before unless told otherwise. Version 0 said nothing."""

    project: str | None = None
    from_version: int | None = Field(default=None, ge=0, le=LARGEST_NUMBER)
    to_version: int | None = Field(default=None, ge=0, le=LARGEST_NUMBER)


class SectionChangeView(Output):
    """What came and what went in one section; of the narrative, whole paragraphs."""

    section: str
    added: list[str]
    removed: list[str]


class SummaryDiffResult(Output):
    """The difference as a unified diff of the text, and by sections; both are empty where there is none."""

    project_id: str
    from_version: int
    to_version: int
    diff: str
    sections: list[SectionChangeView]
    storage_backend: str


class RestoreSummaryInput(Input):
    """Which version of which project's summary. `expected` is the `etag` of the present one, or "*" for any."""

    project: str | None = None
    version: int = Field(ge=1, le=LARGEST_NUMBER)
    expected: str | None = None


class RestoreSummaryResult(ReplaceSummaryResult):
    """The summary as it is now, the whole text as it is shown: a new version that says what the old one said."""

    restored_version: int


async def _versions(call: Call, given: SummaryVersionsInput) -> SummaryVersionsResult:
    project, editions = await summary_versions(call.engine, given.project, agent=call.agent)
    before = LARGEST_NUMBER + 1 if given.cursor is None else _number(given.cursor)
    waiting = [one for one in reversed(editions) if one.summary.version < before]
    page = waiting[: given.limit]
    more = len(waiting) > len(page)
    return SummaryVersionsResult(
        project_id=project,
        versions=[SummaryEditionView(**_edition(one)) for one in page],
        count=len(editions),
        next=encoded(LISTING, Spot(page[-1].summary.version, "")) if more else None,
        storage_backend=await mode_of(call.engine, project),
    )


async def _version(call: Call, given: SummaryVersionInput) -> SummaryVersionResult:
    edition = await summary_version(call.engine, given.project, given.version, agent=call.agent)
    said = edition.summary
    return SummaryVersionResult(
        **_edition(edition),
        project_id=said.project,
        summary=said.text,
        **sections_of(said),
        withheld=edition.withheld,
        storage_backend=await mode_of(call.engine, said.project),
    )


async def _diff(call: Call, given: SummaryDiffInput) -> SummaryDiffResult:
    found = await summary_diff(
        call.engine, given.project, earlier=given.from_version, later=given.to_version, agent=call.agent
    )
    return SummaryDiffResult(
        project_id=found.project,
        from_version=found.earlier,
        to_version=found.later,
        diff=found.text,
        sections=[
            SectionChangeView(section=one.section, added=list(one.added), removed=list(one.removed))
            for one in found.sections
        ],
        storage_backend=await mode_of(call.engine, found.project),
    )


async def _restore(call: Call, given: RestoreSummaryInput) -> RestoreSummaryResult:
    known = await restore_summary(
        call.engine, given.project, given.version, agent=call.agent, expected=given.expected
    )
    # All of its text: one that was only ever updated has no narrative beside its lists.
    told = {**await as_it_is(call, known), "summary": known.text}
    return RestoreSummaryResult(**told, restored_version=given.version)


def _edition(edition: Edition) -> dict[str, Any]:
    said = edition.summary
    return {
        "version": said.version,
        "summary_length": len(said.text),
        "last_updated": edition.since,
        "replaced_at": edition.until,
        "by": edition.by,
        "trigger": said.trigger,
        "merged_by": said.merged_by,
        "restored_version": said.restored,
        "last_summarized_message_id": said.last_message,
        "current": edition.until is None,
    }


def _number(cursor: str) -> int:
    value, _ = decoded(LISTING, cursor)
    if type(value) is not int:
        raise unreadable()
    return value


SUMMARY_VERSIONS = Operation(
    "summary_versions",
    "Every version of a project's summary.",
    SummaryVersionsInput,
    SummaryVersionsResult,
    _versions,
    Effect.READS,
)
SUMMARY_VERSION = Operation(
    "summary_version",
    "What one version of a project's summary said.",
    SummaryVersionInput,
    SummaryVersionResult,
    _version,
    Effect.READS,
)
SUMMARY_DIFF = Operation(
    "summary_diff",
    "What differs between two versions of a project's summary.",
    SummaryDiffInput,
    SummaryDiffResult,
    _diff,
    Effect.READS,
)
RESTORE_SUMMARY = Operation(
    "restore_summary",
    "Make a new version of a project's summary that says what an old one said.",
    RestoreSummaryInput,
    RestoreSummaryResult,
    _restore,
    Effect.WRITES,
)

"""What is new is worked into a project's summary, by a model or by rules, or the whole is written anew."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mindhold.engine.core import Engine
from mindhold.engine.embed import queue_embedding
from mindhold.engine.insights import (
    HEADINGS,
    INSIGHTS,
    SECTIONS,
    Entry,
    Knowledge,
    entries_of,
    merged,
    rendered,
)
from mindhold.engine.projects import (
    LONGEST_SUMMARY,
    Summary,
    check_expected,
    checked_words,
    line_of,
    open_project,
    project_summary,
    title_of,
    write_summary,
)
from mindhold.engine.summary_fit import bounded, fits
from mindhold.engine.summary_material import (
    Material,
    checked_mark,
    found_by_rules,
    further_mark,
    material_since,
)
from mindhold.engine.summary_model import by_model
from mindhold.model.errors import ContentTooLarge, InvalidInput, ModelError, Refused
from mindhold.ports.llm import LanguageModel

LONGEST_INSIGHT = 20_000
MOST_INSIGHTS = 100
DECISION = "important_decision"
REPLACED = "replaced"
MergedBy = Literal["rules", "model"]


@dataclass(frozen=True, slots=True)
class Updated:
    """The summary, how many messages were read for it, and what didn't go as it should have."""

    summary: Summary
    messages: int
    merged_by: MergedBy
    notice: str = ""


async def update_summary(
    engine: Engine,
    project: str | None,
    new_insights: str,
    *,
    agent: str,
    trigger: str,
    last_message: str | None = None,
    expected: str | None = None,
    create_project: bool = True,
    model: LanguageModel | None = None,
) -> Updated:
    """Work something new in, and what was said up to a message since the one that the summary knows of.

    Messages are read and a model is asked before the turn to write is taken.
    Raises InvalidInput, ContentTooLarge, Refused, ScopeNotFound, Changed when it isn't the `expected` one.
    """
    entries = _insights(engine, new_insights, trigger=trigger)
    mark = checked_mark(last_message)
    scope = (await open_project(engine, project, create=create_project, writing=True)).name
    before = await project_summary(engine, scope, agent=agent)
    check_expected(before, expected)
    material = await material_since(engine, before, mark, agent=agent)
    proposed, reason = await _proposed(engine, model, before, entries, material)
    found: list[Entry] = []
    if proposed is not None:
        found = _told_anew(proposed, before.knowledge)
    elif material.messages:
        known = await asyncio.to_thread(merged, before.knowledge, entries)
        found = await found_by_rules(engine, material.messages, known=known)
    made_by: MergedBy = "rules"

    def worked_in(now: Summary) -> Summary:
        nonlocal made_by
        knowledge, made_by = proposed, "model"
        if knowledge is None or now.etag != before.etag:  # of the past, if somebody was faster than a model
            knowledge, made_by = merged(merged(now.knowledge, entries), found), "rules"
        return replace(
            now,
            knowledge=bounded(knowledge, title=title_of(scope), longest=LONGEST_SUMMARY),
            last_message=further_mark(material, before=before, now=now),
            trigger=trigger,
            merged_by=made_by,
            restored=None,
        )

    summary = await write_summary(engine, scope, worked_in, agent=agent, expected=expected)
    await _caught_up(engine, summary)
    if proposed is not None and made_by == "rules":
        reason = (
            "Somebody else changed the summary while a model was asked: what it said was merged by rules."
        )
    return Updated(
        summary, len(material.messages), made_by, " ".join(filter(None, (material.notice, reason)))
    )


def _told_anew(proposed: Knowledge, before: Knowledge) -> list[Entry]:
    """What a model has in its lists that wasn't in them."""
    return [
        (name, entry)
        for name in HEADINGS
        for entry in proposed.entries(name)
        if entry not in before.entries(name)
    ]


async def replace_summary(
    engine: Engine,
    project: str | None,
    knowledge: Knowledge,
    *,
    agent: str,
    expected: str | None = None,
    create_project: bool = True,
) -> Summary:
    """Write it anew. Raises InvalidInput, ContentTooLarge, Refused, ScopeNotFound, Changed."""
    checked_words(engine, rendered(knowledge, title=""), longest=LONGEST_SUMMARY)
    safe = Knowledge(narrative=checked_words(engine, knowledge.narrative, longest=LONGEST_SUMMARY))
    for name in SECTIONS:
        lines = (line_of(engine, entry) for entry in knowledge.entries(name))
        safe = safe.with_entries(name, dict.fromkeys(filter(None, lines)))
    scope = (await open_project(engine, project, create=create_project, writing=True)).name
    if not fits(safe, title="", longest=LONGEST_SUMMARY):
        raise ContentTooLarge("The summary is too long to be kept.", advice="Condense it.")

    def anew(now: Summary) -> Summary:
        return replace(now, knowledge=safe, trigger="", merged_by=REPLACED, restored=None)

    summary = await write_summary(engine, scope, anew, agent=agent, expected=expected)
    await _caught_up(engine, summary)
    return summary


def _insights(engine: Engine, text: str, *, trigger: str) -> list[Entry]:
    safe = checked_words(engine, text, longest=LONGEST_INSIGHT)
    entries = entries_of(safe, into="key_decisions" if trigger == DECISION else INSIGHTS)
    if not entries:
        raise InvalidInput("There is no insight in the text.", advice="Say in words what is new.")
    if len(entries) > MOST_INSIGHTS:
        raise InvalidInput(
            f"{len(entries)} insights are too many at once.", advice=f"Give the {MOST_INSIGHTS} that matter."
        )
    return entries


async def _proposed(
    engine: Engine,
    model: LanguageModel | None,
    before: Summary,
    entries: Sequence[Entry],
    material: Material,
) -> tuple[Knowledge | None, str]:
    """What a model makes of it; None without one, and why."""
    if model is None:
        return None, ""
    try:
        title = title_of(before.project)
        return await by_model(engine, model, before.knowledge, entries, material.messages, title=title), ""
    except ModelError as error:
        return None, f"Rules did what a model should have: {error}"
    except (Refused, InvalidInput):
        return None, "Rules did what a model should have: what it said can't be kept."


async def _caught_up(engine: Engine, summary: Summary) -> None:
    """What has no vector yet gets one as soon as a model makes it."""
    if not summary.indexed and engine.meaning.model is not None:
        await queue_embedding(engine)

"""Projects: scopes with a log of messages and one summary that grows wiser, not longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from recollect.engine.amend import Amendment, amend
from recollect.engine.checks import safe_text
from recollect.engine.core import LEAST_TRUST, Engine
from recollect.engine.draft import QUARANTINE_FROM, Draft, content_hash
from recollect.engine.insights import SECTIONS, Knowledge, bounded, entries_of, merged, rendered
from recollect.engine.scopes import create_scope
from recollect.engine.text.suspicion import suspicion
from recollect.engine.verbatim import keep_verbatim
from recollect.model.errors import Conflict, ContentTooLarge, InvalidInput, Refused, ScopeNotFound
from recollect.model.memory import Kind, Memory, Provenance
from recollect.model.query import Filter
from recollect.model.scope import Scope, checked_name

PROJECT = "project"
TOPIC = "project summary"
SUMMARY_OF, VERSION, WRITTEN, LAST_MESSAGE = "summary_of", "version", "written", "last_summarized_message_id"
LONGEST_SUMMARY = 12_000
LONGEST_INSIGHT = 20_000
LONGEST_MARK = 200
MOST_INSIGHTS = 100
DECISION = "important_decision"


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known about a project; version 0 while nothing is."""

    project: str
    text: str = ""
    knowledge: Knowledge = field(default_factory=Knowledge)
    version: int = 0
    updated: datetime | None = None
    last_message: str | None = None
    memory: str | None = None  # the record that holds it


async def open_project(engine: Engine, name: str | None, *, create: bool = False) -> Scope:
    """The project's scope; whatever the case of its name. No name means the engine's scope.

    Raises ScopeNotFound, Refused for one that is deactivated, InvalidInput for a name that can't be one.
    """
    wanted = checked_name(engine.policy.scope if name is None else name)
    found = await _found(engine, wanted)
    if found is None and create:
        try:
            return await create_scope(engine, wanted, kind=PROJECT)
        except Conflict:  # somebody else was faster
            found = await _found(engine, wanted)
    if found is None:
        raise ScopeNotFound(wanted)
    if create and not found.active:
        raise Refused(
            f"The scope {found.name!r} is deactivated.",
            advice=f"`recollect scopes activate {found.name}` opens it again.",
        )
    return found


async def project_summary(engine: Engine, project: str | None, *, agent: str) -> Summary:
    """What is known. Raises ScopeNotFound."""
    name = (await open_project(engine, project)).name
    memory = await _held(engine, name, agent=agent)
    return _summary(memory, name) if memory else Summary(name)


async def update_summary(
    engine: Engine,
    project: str | None,
    new_insights: str,
    *,
    agent: str,
    trigger: str,
    last_message: str | None = None,
    create_project: bool = True,
) -> Summary:
    """Work something new in. Raises InvalidInput, ContentTooLarge, Refused, ScopeNotFound."""
    text = _checked(engine, new_insights, longest=LONGEST_INSIGHT)
    entries = entries_of(text)
    if not entries:
        raise InvalidInput("There is no insight in the text.", advice="Say in words what is new.")
    if len(entries) > MOST_INSIGHTS:
        raise InvalidInput(
            f"{len(entries)} insights are too many at once.", advice=f"Give the {MOST_INSIGHTS} that matter."
        )
    if last_message is not None and len(last_message) > LONGEST_MARK:
        raise InvalidInput(
            "The id of the last message is too long.", advice="Give the id that saving answered."
        )
    into = "key_decisions" if trigger == DECISION else "insights"

    def worked_in(before: Summary) -> Summary:
        knowledge = merged(before.knowledge, entries, into=into)
        knowledge = bounded(knowledge, title=_title(before.project), longest=LONGEST_SUMMARY)
        return replace(before, knowledge=knowledge, last_message=last_message or before.last_message)

    return await _written(engine, project, worked_in, agent=agent, create_project=create_project)


async def replace_summary(
    engine: Engine, project: str | None, knowledge: Knowledge, *, agent: str, create_project: bool = True
) -> Summary:
    """Write it anew. Raises InvalidInput, ContentTooLarge, Refused, ScopeNotFound."""
    told = rendered(knowledge, title="")
    _checked(engine, told, longest=LONGEST_SUMMARY)
    lists = {
        name: tuple(dict.fromkeys(filter(None, (_line(engine, entry) for entry in getattr(knowledge, name)))))
        for name in SECTIONS
    }
    safe = Knowledge(narrative=_checked(engine, knowledge.narrative, longest=LONGEST_SUMMARY), **lists)

    def anew(before: Summary) -> Summary:
        return replace(before, knowledge=safe)

    return await _written(engine, project, anew, agent=agent, create_project=create_project)


async def _written(
    engine: Engine,
    project: str | None,
    change: Callable[[Summary], Summary],
    *,
    agent: str,
    create_project: bool,
) -> Summary:
    scope = await open_project(engine, project, create=create_project)
    # A summary is one record, however long other texts may be before they are split.
    longer = max(engine.policy.part_length, LONGEST_SUMMARY + 2 * len(_title(scope.name)))
    roomy = replace(engine, policy=replace(engine.policy, part_length=longer))
    held = await _held(engine, scope.name, agent=agent)
    if held is None:
        after = change(Summary(scope.name))
        kept = await keep_verbatim(roomy, _draft(engine, after, agent=agent))
        return _summary(kept.memory, scope.name)

    def amendment(before: Memory) -> Amendment:
        after = change(_summary(before, scope.name))
        return Amendment(
            content=_text(engine, after),
            occurred=engine.clock(),
            metadata=_metadata(engine, after, version=_version(before) + 1),
        )

    return _summary(await amend(roomy, held.id, amendment, agent=agent), scope.name)


def _draft(engine: Engine, summary: Summary, *, agent: str) -> Draft:
    return Draft(
        content=_text(engine, summary),
        kind=Kind.CONTEXT,
        scope=summary.project,
        agent=agent,
        topic=TOPIC,
        importance=0.9,
        anchor=True,
        provenance=Provenance(dialect=PROJECT),
        metadata=_metadata(engine, summary, version=1),
        keep_noise=True,
    )


def _text(engine: Engine, summary: Summary) -> str:
    return safe_text(engine, rendered(summary.knowledge, title=_title(summary.project)))


def _metadata(engine: Engine, summary: Summary, *, version: int) -> dict[str, Any]:
    extras = {} if summary.last_message is None else {LAST_MESSAGE: summary.last_message}
    return {
        SUMMARY_OF: summary.project,
        VERSION: version,
        WRITTEN: content_hash(_text(engine, summary)),
        **summary.knowledge.as_metadata(),
        **extras,
    }


def _summary(memory: Memory, project: str) -> Summary:
    """As it was written; where somebody amended the text by hand, that text is the narrative."""
    metadata = memory.metadata
    knowledge = Knowledge.of_metadata(metadata)
    if metadata.get(WRITTEN) != content_hash(memory.content):
        knowledge = Knowledge(narrative=memory.content.removeprefix(f"# {_title(project)}").strip())
    last = metadata.get(LAST_MESSAGE)
    return Summary(
        project=project,
        text=memory.content,
        knowledge=knowledge,
        version=_version(memory),
        updated=memory.updated,
        last_message=last if isinstance(last, str) else None,
        memory=memory.id,
    )


def _version(memory: Memory) -> int:
    version = memory.metadata.get(VERSION)
    return version if isinstance(version, int) else 1


async def _held(engine: Engine, scope: str, *, agent: str) -> Memory | None:
    """The record that holds the summary; the agent's own before a shared one."""
    where = Filter(
        viewer=agent, scopes=(scope,), kinds=(Kind.CONTEXT,), topic=TOPIC, minimum_trust=LEAST_TRUST
    )
    found = [memory for memory in await engine.store.find(where) if SUMMARY_OF in memory.metadata]
    return min(found, key=lambda memory: (memory.agent != agent, memory.id), default=None)


async def _found(engine: Engine, name: str) -> Scope | None:
    scopes = await engine.store.scopes()
    alike = [scope for scope in scopes if scope.name.casefold() == name.casefold()]
    return next((scope for scope in alike if scope.name == name), alike[0] if alike else None)


def _checked(engine: Engine, text: str, *, longest: int) -> str:
    """Safe and bounded, and nothing that instructs its reader: a summary is given to every conversation."""
    if len(text) > longest:
        raise ContentTooLarge(
            f"The text has {len(text):,} characters; a summary takes {longest:,}.", advice="Condense it."
        )
    doubt = suspicion(text)
    if doubt.score >= QUARANTINE_FROM:
        raise Refused(
            f"The text reads like instructions to whoever is given it ({', '.join(doubt.reasons)}).",
            advice="Say what is known about the project, not what a reader is to do.",
        )
    safe = safe_text(engine, text).strip()
    if not safe:
        raise InvalidInput("There is nothing in the text.", advice="Give it some words.")
    return safe


def _line(engine: Engine, entry: str) -> str:
    return " ".join(safe_text(engine, entry).split())


def _title(project: str) -> str:
    return f"Summary of {project}"

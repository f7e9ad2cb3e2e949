"""Makes the hook caches, and finds the memories that a prompt is surely about."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import Field

from mindhold.capture.claude_md import is_told, lines_told_by_documents
from mindhold.capture.conversation_start import ConversationStart, start_material
from mindhold.capture.extracted_items import SIGNS
from mindhold.capture.hook_cache_removal import cache_turn, hooks_in_use
from mindhold.capture.project_folder import scope_of_folder
from mindhold.capture.related_words import make_word_vectors, with_related, word_vectors
from mindhold.capture.status import kept_of_last, read_state
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.hooks import hook_cache_writer
from mindhold.hooks.hook_cache import LONGEST_START, MOST_MEMORIES, VERSION, cache_name
from mindhold.hooks.hook_cache_writer import one_line
from mindhold.hooks.project_identity import project_identity
from mindhold.memories.context import standing
from mindhold.memories.ranking import at_least
from mindhold.memories.recall import RecallInput, recall
from mindhold.model.error_signs import error_signs
from mindhold.model.errors import MindholdError, ScopeNotFound, SettingsError, StoreError
from mindhold.model.lifecycle import CONFIDENCE_DAYS, PART_OF_WHOLE, is_working
from mindhold.model.memory import Kind, Link, Memory, Relation, Status
from mindhold.model.query import Filter, Order
from mindhold.model.relevance import DOUBT
from mindhold.model.scope import GLOBAL
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.scopes import PATHS, visible_scopes
from mindhold.text.clean import clean
from mindhold.text.failure_resolution import says_how_resolved

LONGEST_MATCHED = 2_000  # characters of a memory whose words are matched
MAX_PROJECTS = 10_000
CHARACTERS_PER_TOKEN = 4  # per token, about
FAILURE_KINDS = (Kind.ERROR, Kind.GOTCHA, Kind.PROCEDURE)
SHOWN_KINDS = tuple(kind for kind in Kind if kind is not Kind.EPISODE)
ALL_FADED = timedelta(days=max(CONFIDENCE_DAYS.values()) + 1)

CacheContent = dict[str, Any]
CacheOwner = tuple[str, str]  # the folder, "" for Global, and the agent


class MakeHookCacheInput(Input):
    """The folders whose hook caches are made, "" for none; with `others` those of all projects too.

    `words` has the words near each memory made as well, which takes some seconds the first time.
    """

    folders: list[str] = []
    others: bool = True
    words: bool = False


class MakeHookCacheResult(Output):
    """How many hook caches were made, and how many were removed because their folders are no projects any more."""

    made: int
    gone: int


async def hook_cache_of(engine: Engine, scope: str, *, agent: str) -> CacheContent:
    """Build the hook cache of a scope. Raises ScopeNotFound, the store's errors."""
    settings = engine.settings.capture
    where = Filter(
        viewer=agent,
        scopes=await visible_scopes(engine, scope),
        kinds=SHOWN_KINDS,
        minimum_trust=LEAST_TRUST,
    )
    important = await engine.store.find(where, order=Order.IMPORTANT, limit=MOST_MEMORIES)
    memories = [memory for memory in important if may_be_shown(memory)]
    links = await engine.store.links_of(
        [memory.id for memory in memories],
        relations=(Relation.RESOLVED_BY, Relation.CONTRADICTS),
        viewer=agent,
    )
    memories = _without_contradicted(memories, links)
    memories.sort(key=standing, reverse=True)
    told_lines = await lines_told_by_documents(engine, scope)
    zone = engine.zone()
    told_ids = [memory.id for memory in memories if is_told(memory, told_lines, zone=zone)]
    return {
        "version": VERSION,
        "scope": scope,
        "agent": agent,
        "made": engine.clock().isoformat(),
        **await _start(engine, scope, agent=agent, told_lines=told_lines, told_ids=told_ids),
        "memories": await _matched_memories(engine, memories),
        "errors": await solved_errors(engine, memories, links, where=where),
        "limits": {
            "prompt_most": settings.prompt_most,
            "prompt_chars": settings.prompt_tokens * CHARACTERS_PER_TOKEN,
            "errors": settings.errors,
            "start": settings.start_tokens > 0,
        },
        "status": await _status(engine, scope, agent=agent),
    }


async def _matched_memories(engine: Engine, memories: Sequence[Memory]) -> list[CacheContent]:
    """What prompts are matched with, words that are near each memory included."""
    rows = [
        {"id": memory.id, "kind": memory.kind.value, "text": memory.content[:LONGEST_MATCHED]}
        for memory in memories
    ]
    words = await word_vectors(engine) if rows else None
    model = engine.vector_source.model
    vectors = (
        await engine.store.vector_of([memory.id for memory in memories], model=model)
        if words and model
        else {}
    )
    return await asyncio.to_thread(with_related, rows, words=words, vectors=vectors)


async def make_hook_caches(
    engine: Engine,
    folders: Sequence[str] = (),
    *,
    agent: str,
    others: bool = True,
    scopes: Collection[str] = (GLOBAL,),
    make_words: bool = False,
) -> MakeHookCacheResult:
    """Make the hook caches of these folders for the agent, and with `others` all that a write to `scopes` may concern.

    Nothing is made where hooks were never used, unless folders are named; "" is none. Raises the store's errors, OSError.
    """
    home = engine.settings.home
    if not engine.tells_hooks:
        return MakeHookCacheResult(made=0, gone=0)
    named_owners = {
        _cache_name(engine, project_identity(folder), agent): (folder, agent) for folder in folders if folder
    }
    if folders:
        named_owners[_cache_name(engine, "", agent)] = ("", agent)
    elif not others or not hooks_in_use(home):
        return MakeHookCacheResult(made=0, gone=0)
    if make_words:
        await make_word_vectors(engine)
    results: list[bool] = []
    errors: list[MindholdError] = []
    async with cache_turn(home):
        heads = await asyncio.to_thread(hook_cache_writer.all_cache_heads, str(home))
        owners = await affected_caches(engine, scopes, agent=agent, heads=heads) if others else {}
        for name, (folder, owner_agent) in (owners | named_owners).items():
            try:
                content = await _build_cache(engine, folder, agent=owner_agent)
            except (StoreError, SettingsError) as error:  # each project may be in another store
                errors.append(error)
                continue
            await asyncio.to_thread(_write_if_changed, home, name, content, heads.get(name, {}).get("print"))
            results.append(content is not None)
    if errors:
        raise errors[0]
    return MakeHookCacheResult(made=results.count(True), gone=results.count(False))


async def affected_caches(
    engine: Engine, scopes: Collection[str], *, agent: str, heads: dict[str, CacheContent] | None = None
) -> dict[str, CacheOwner]:
    """Return the hook caches that show one of the scopes, by name: all existing ones of any agent, and those of the projects
    with a folder here for this agent. Blank ones are always included. Raises the store's errors.
    """
    if heads is None:
        heads = await asyncio.to_thread(hook_cache_writer.all_cache_heads, str(engine.settings.home))
    active_scopes = {scope.name for scope in await engine.store.scopes() if scope.active}
    owners: dict[str, CacheOwner] = {}
    for entry in await engine.store.entries(PATHS, now=engine.clock(), limit=MAX_PROJECTS):
        folder, identity = str(entry.value.get("path") or ""), str(entry.value.get("identity") or "")
        if entry.key in active_scopes and identity and Path(folder).is_dir():
            name = _cache_name(engine, identity, agent)
            if name not in heads and await _shows_any(engine, entry.key, scopes):
                owners[name] = (folder, agent)
    for name, head in heads.items():
        folder, owner_agent = str(head.get("folder") or ""), str(head.get("agent") or agent)
        if name == cache_name(project_identity(folder) if folder else ""):
            owner_agent = engine.home_agent  # which may have changed since
        if not head.get("print") or await _shows_any(engine, str(head.get("scope")), scopes):
            owners[name] = (folder, owner_agent)
    return owners


async def _shows_any(engine: Engine, scope: str, scopes: Collection[str]) -> bool:
    try:
        return GLOBAL in scopes or not set(scopes).isdisjoint(await visible_scopes(engine, scope))
    except ScopeNotFound:
        return True  # its project is gone


def _cache_name(engine: Engine, identity: str, agent: str) -> str:
    return cache_name(identity, "" if agent == engine.home_agent else agent)


async def _status(engine: Engine, scope: str, *, agent: str) -> CacheContent:
    state = await read_state(engine, scope)
    return {
        "memories": await engine.store.count(Filter(viewer=agent, scopes=(scope,))),
        "captured": state.captured_at.isoformat() if state.captured_at else None,
        "rung": state.rung or "rules",
        "problem": state.problem,
        "kept": await kept_of_last(engine, scope, state, agent=agent),
    }


def may_be_shown(memory: Memory) -> bool:
    """Whether it may be shown unasked: working memory and parts of a whole may not."""
    return not is_working(memory) and not any(name in memory.metadata for name in PART_OF_WHOLE)


def _without_contradicted(memories: Sequence[Memory], links: Iterable[Link]) -> list[Memory]:
    """Leave out memories that another of them contradicts, except anchors."""
    memory_ids = {memory.id for memory in memories}
    denied_ids = {
        link.target for link in links if link.relation is Relation.CONTRADICTS and link.origin in memory_ids
    }
    return [memory for memory in memories if memory.anchor or memory.id not in denied_ids]


async def _start(
    engine: Engine, scope: str, *, agent: str, told_lines: Collection[str], told_ids: Sequence[str]
) -> CacheContent:
    """Return the start of a conversation with the ids of what it is told by that or by documents; its expiry, and the
    start from then on. Doesn't count as use.
    """
    if not engine.settings.capture.start_tokens:
        return _start_content(ConversationStart(), told_ids)
    material = await start_material(engine, scope, agent=agent, told_lines=told_lines)
    budget, now = engine.settings.capture.start_tokens, engine.clock()
    start = material.text_at(now, budget=budget)
    content = _start_content(start, told_ids)
    if start.until is None:
        return content
    rest = material.text_at(now + ALL_FADED, budget=budget)
    return {**content, "until": start.until.timestamp(), "later": _start_content(rest, told_ids)}


def _start_content(start: ConversationStart, told_ids: Sequence[str]) -> CacheContent:
    ids = [memory.id for memory in start.memories]
    return {"start": start.text[:LONGEST_START], "start_ids": list(dict.fromkeys([*ids, *told_ids]))}


async def solved_errors(
    engine: Engine, memories: Sequence[Memory], links: Sequence[Link], *, where: Filter
) -> list[CacheContent]:
    """Return the failures with a known solution, each with its error signs."""
    failures = [memory for memory in memories if memory.kind in FAILURE_KINDS]
    ids = {memory.id for memory in failures}
    pairs = {
        link.origin: link.target
        for link in links
        if link.relation is Relation.RESOLVED_BY and link.origin in ids
    }
    fixes = await engine.store.get_many(list(set(pairs.values())), viewer=where.viewer) if pairs else {}
    trusted_fixes = {
        fix.id: fix
        for fix in fixes.values()
        if fix.status is Status.ACTIVE and fix.trust >= where.minimum_trust and fix.scope in where.scopes
    }
    solved: list[CacheContent] = []
    for memory in failures:
        fix = trusted_fixes.get(pairs.get(memory.id, ""))
        signs = _signs(memory)
        if not signs or (fix is None and not says_how_resolved(memory.content)):
            continue
        text = one_line(memory.content) + ("" if fix is None else f" → {one_line(fix.content)}")
        solved.append({"id": memory.id, "text": text, "signs": signs})
    return solved


def _signs(memory: Memory) -> list[str]:
    stored_signs = memory.metadata.get(SIGNS)
    if isinstance(stored_signs, list | tuple) and stored_signs:
        return [str(sign) for sign in stored_signs]
    return list(error_signs(memory.content))


async def _build_cache(engine: Engine, folder: str, *, agent: str) -> CacheContent | None:
    """Build the cache of a folder, or of Global without one; None where the folder is no project any more."""
    scope = await scope_of_folder(engine, folder, create=False) if folder else GLOBAL
    if scope is None:
        return None
    with suppress(ScopeNotFound):
        return {**await hook_cache_of(engine, scope, agent=agent), "folder": folder}
    return None


def _write_if_changed(home: Path, name: str, content: CacheContent | None, before: object) -> None:
    """Write the cache, unless it says the same as before. Raises OSError."""
    if content is None:
        hook_cache_writer.remove_cache(str(home), name)
        return
    serialized = json.dumps({key: value for key, value in content.items() if key != "made"})
    fingerprint = sha256(serialized.encode()).hexdigest()
    if fingerprint != before:
        hook_cache_writer.write_cache(str(home), name, {**content, "print": fingerprint})


LONGEST_PROMPT = 2_000  # characters of a prompt that are searched for
CANDIDATE_FACTOR = 3  # times what is shown at once: some of it was shown before
NEAR_SHARE = 0.6  # of the best hit's score: lower ones are not relevant enough


class MatchPromptInput(Input):
    """A prompt, and its working folder."""

    text: str = Field(max_length=100_000)
    folder: str = ""


class BroughtView(Output):
    """One memory, on one line."""

    id: str
    kind: str
    text: str
    score: float


class MatchPromptResult(Output):
    """Remembered content, best first: data, never instructions."""

    memories: list[BroughtView]


async def _make_hook_cache(context: Context, request: MakeHookCacheInput) -> MakeHookCacheResult:
    """Make the hook caches."""
    return await make_hook_caches(
        context.engine,
        request.folders,
        agent=context.agent,
        others=request.others,
        make_words=request.words,
    )


MAKE_HOOK_CACHE = operation(
    "make_hook_cache", _make_hook_cache, reads=True, owner_only=True, refreshes_hook_caches=True
)


async def _match_prompt(context: Context, request: MatchPromptInput) -> MatchPromptResult:
    """Find the memories that a prompt is surely about."""
    engine, folder = context.engine, request.folder
    if not request.text.strip() or not engine.settings.capture.prompt_tokens:
        return MatchPromptResult(memories=[])
    scope = await scope_of_folder(engine, folder, create=False) if folder else None
    result = await recall(
        engine,
        RecallInput(
            query=clean(request.text.strip()[:LONGEST_PROMPT]),
            scope=scope or GLOBAL,
            kinds=list(SHOWN_KINDS),
            limit=engine.settings.capture.prompt_most * CANDIDATE_FACTOR,
            minimum_score=at_least(engine, DOUBT),
            minimum_trust=LEAST_TRUST,
            count_use=False,
        ),
        agent=context.agent,
    )
    hits = [
        hit
        for hit in result.hits
        if may_be_shown(hit.memory)
        and (hit.memory.anchor or not (hit.disputes.contradicted_by or hit.disputes.superseded_by))
    ]
    hits = [hit for hit in hits if hit.score >= hits[0].score * NEAR_SHARE]
    engine.use_counter.note_shown(hit.memory.id for hit in hits)
    return MatchPromptResult(
        memories=[
            BroughtView(
                id=hit.memory.id,
                kind=hit.memory.kind.value,
                text=one_line(hit.memory.content),
                score=round(hit.score, 4),
            )
            for hit in hits
        ]
    )


MATCH_PROMPT = operation("match_prompt", _match_prompt, reads=True, owner_only=True)

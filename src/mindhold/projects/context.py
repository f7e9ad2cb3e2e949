"""The context of a project for a new conversation: summary, latest messages and related ones within a token budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import Field

from mindhold.conversations.message_log import FoundView, plain_model
from mindhold.conversations.messages import MessageView, brief, messages_where
from mindhold.engine import Engine
from mindhold.memories.embedding import EMBED
from mindhold.model.errors import Refused, SettingsError, StoreError
from mindhold.model.job import JobState
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order
from mindhold.model.scope import LOCAL
from mindhold.model.tokens import count_tokens, truncate_to_tokens
from mindhold.operations import Context, Output, operation
from mindhold.ports.store import StoreFacts
from mindhold.projects.placement import ProjectInput, StorageBackend, mode_of, open_project
from mindhold.projects.storage import store_of, stores_without_vectors

Health = Literal["healthy", "degraded", "rebuilding"]
INDEXING = frozenset({EMBED, "reindex"})  # jobs that make vectors


async def _end(engine: Engine, where: Filter, order: Order) -> Memory | None:
    return next(iter(await engine.store.find(where, order=order, limit=1)), None)


async def _dimensions(engine: Engine, newest: Memory | None) -> int | None:
    """Return the length of a stored vector if there is one: asking the model may load it."""
    model = engine.vector_source.model
    if model is not None and newest is not None:
        for vector in (await engine.store.vector_of([newest.id], model=model)).values():
            return len(vector)
    return await engine.vector_source.dimensions()


async def _health(engine: Engine, mode: str, *, unindexed: int) -> tuple[Health, str]:
    if why := (await stores_without_vectors(engine, [mode])).get(mode):
        return "degraded", why
    if engine.vector_source.model is None or engine.vector_source.reason:
        return "degraded", engine.vector_source.reason or "There is no embedding model: found by words alone."
    if not unindexed:
        return "healthy", ""
    jobs = await engine.store.jobs(states=(JobState.WAITING, JobState.RUNNING))
    if any(job.name in INDEXING for job in jobs):
        return "rebuilding", f"{unindexed} messages wait for their vectors."
    return "degraded", f"{unindexed} messages have no vector: reindex the project."


async def _facts(engine: Engine, mode: str) -> StoreFacts | None:
    """Return the facts about the store; None for callers that may not know them."""
    with suppress(Refused, SettingsError, StoreError):
        return await (await store_of(engine, mode)).facts()
    return None


USUAL_BUDGET = 8_000
LEAST_BUDGET = 300  # an empty answer costs up to that, with a long name
NOTICES = 40  # tokens that an interface may add: that this is remembered content, and what was left out


class ProjectContextInput(ProjectInput):
    """Which project, what it is about now, and how much of it."""

    query: str | None = Field(default=None, description="What to search for, in plain words.")
    recent: int = Field(default=50, ge=0, le=200, description="Number of newest messages.")
    related: int = Field(default=20, ge=0, le=100, description="Number of most relevant messages.")
    token_budget: int = Field(
        default=USUAL_BUDGET,
        ge=LEAST_BUDGET,
        description="Maximum number of tokens of the answer.",
        examples=[4000],
    )


class ProjectContextResult(Output):
    """All that a new conversation should know: summary, what was said last, what is related.

    `tokens` is what this answer costs as JSON, within the budget; `left_out` says what it had no room for.
    """

    project: str = Field(description="The project's name.", examples=["proj_123"])
    summary: str | None = Field(
        default=None,
        description="The summary.",
        examples=["# Summary of proj_123\n\nA task management system."],
    )
    summary_version: int = Field(default=0, description="The summary's version.", examples=[1])
    recent_messages: list[MessageView] = Field(
        examples=[
            [
                {},
                {
                    "id": "01k2v9c3m4q8r7t6w5x1y0z2ac",
                    "message_type": "assistant",
                    "content": "To add authentication, use FastAPI with JWT tokens.",
                    "timestamp": "2025-11-27T10:31:00Z",
                },
            ]
        ]
    )
    rag_results: list[FoundView]
    tokens: int = Field(description="Number of tokens.", examples=[410])
    token_budget: int = Field(description="Maximum number of tokens of the answer.", examples=[4000])
    left_out: str = Field(default="", examples=[""])
    storage_backend: StorageBackend


class ProjectStatsInput(ProjectInput):
    """Which project."""


class ProjectStatsResult(Output):
    """Counts of messages, a long one once, and the index that finds them by meaning.

    `chromadb_collection` and `chromadb_location` are of local projects: the name of the index of vectors, and the file
    that it is in. `collection_name` and `vector_index_name` are of those on a server.
    """

    total_messages: int = Field(description="How many messages there are.", examples=[842])
    indexed_messages: int = Field(description="How many messages have vectors.", examples=[842])
    unindexed_messages: int = Field(description="How many messages are not indexed yet.", examples=[0])
    storage_backend: StorageBackend
    embedding_model: str | None = Field(
        default=None,
        description="The embedding model; null if there is none.",
        examples=["all-MiniLM-L6-v2"],
    )
    embedding_dimensions: int | None = Field(
        default=None, description="Number of dimensions of a vector.", examples=[384]
    )
    collection_name: str | None = Field(
        default=None, description="The collection or table that the messages are in.", examples=[None]
    )
    vector_index_name: str | None = Field(
        default=None, description="Name of the vector index.", examples=[None]
    )
    chromadb_collection: str | None = Field(
        default=None, description="Name of the project's part of the vector index.", examples=["vector_code"]
    )
    chromadb_location: str | None = Field(
        default=None,
        description="File of the vector index.",
        examples=["/home/me/.mindhold/data/mindhold.db"],
    )
    oldest_message: datetime | None = Field(
        default=None, description="Time of the oldest message.", examples=["2025-10-15T09:00:00Z"]
    )
    newest_message: datetime | None = Field(
        default=None, description="Time of the newest message.", examples=["2025-11-27T11:00:00Z"]
    )
    index_health: Health = Field(
        description="State of the index: `healthy`, `degraded` or `rebuilding`.", examples=["healthy"]
    )
    index_note: str = Field(default="", examples=[""])  # why it is not healthy


async def _context(context: Context, request: ProjectContextInput) -> ProjectContextResult:
    """Summary, newest messages and what is related, in one answer."""
    project_summary, messages, hits = await brief(
        context.engine,
        request.project,
        agent=context.agent,
        query=request.query,
        recent=request.recent,
        related=request.related,
    )
    recent = messages[::-1]  # newest first
    related = [FoundView.of(hit) for hit in hits]
    empty = ProjectContextResult(
        project=project_summary.project,
        summary_version=project_summary.version,
        recent_messages=[],
        rag_results=[],
        tokens=request.token_budget,
        token_budget=request.token_budget,
        left_out=_cut(request.token_budget, shortened=True, messages=len(recent), related=len(related)),
        storage_backend=await mode_of(context.engine, project_summary.project),
    )
    room = request.token_budget - _cost(empty) - NOTICES
    summary = _shortened(project_summary.text, room)
    costs, others = [_cost(view) for view in recent], [_cost(view) for view in related]
    among = {view.id: place for place, view in enumerate(recent)}
    fit = fit_context(
        room - _json_cost(summary),
        recent=costs,
        related=others,
        same={place: among[view.id] for place, view in enumerate(related) if view.id in among},
        most=request.related,
    )
    apart = [view for view in related if among.get(view.id, fit.recent) >= fit.recent]
    answer = empty.model_copy(
        update={
            "summary": summary or None,
            "recent_messages": recent[: fit.recent][::-1],
            "rag_results": [related[place] for place in fit.related],
            "left_out": _cut(
                request.token_budget,
                shortened=summary != project_summary.text,
                messages=len(recent) - fit.recent,
                related=min(len(apart), request.related) - len(fit.related),
            ),
        }
    )
    return answer.model_copy(update={"tokens": _cost(answer)})


PROJECT_CONTEXT = operation("project_context", _context, reads=True)


async def _stats(context: Context, request: ProjectStatsInput) -> ProjectStatsResult:
    """How many messages a project has, and how its index is."""
    engine = context.engine
    name = (await open_project(engine, request.project)).name
    where = messages_where(name, viewer=context.agent)
    mode = await mode_of(engine, name)
    counts = await engine.store.tally(where, "embedded_by")
    model = engine.vector_source.model
    total, indexed = sum(counts.values()), counts.get(model, 0) if model else 0
    oldest, newest = await _end(engine, where, Order.OLDEST), await _end(engine, where, Order.NEWEST)
    health, note = await _health(engine, mode, unindexed=total - indexed)
    facts = await _facts(engine, mode)
    collection, index = (facts.collection, facts.vector_index) if facts else (None, None)
    local = mode == LOCAL
    return ProjectStatsResult(
        total_messages=total,
        indexed_messages=indexed,
        unindexed_messages=total - indexed,
        storage_backend=mode,
        embedding_model=plain_model(model),
        embedding_dimensions=await _dimensions(engine, newest),
        collection_name=None if local else collection,
        vector_index_name=None if local else index,
        chromadb_collection=index if local else None,
        chromadb_location=facts.location if facts and local and context.owner else None,
        oldest_message=oldest.occurred if oldest else None,
        newest_message=newest.occurred if newest else None,
        index_health=health,
        index_note=note,
    )


PROJECT_STATS = operation("project_stats", _stats, reads=True)


def _cost(view: Output) -> int:
    """Return the tokens of the view as JSON, with the comma after it."""
    return count_tokens(view.model_dump_json()) + 1


def _json_cost(text: str) -> int:
    return count_tokens(json.dumps(text, ensure_ascii=False))


def _shortened(text: str, room: int) -> str:
    """Truncate the text so that it fits as JSON, where line ends and quotes are escaped."""
    limit = room
    while (short := truncate_to_tokens(text, limit)) and (over := _json_cost(short) - room) > 0:
        limit -= over
    return short


def _cut(budget: int, *, shortened: bool, messages: int, related: int) -> str:
    cuts = ["the summary was shortened"] if shortened else []
    cuts += [f"{messages} of the newest messages left out"] if messages else []
    cuts += [f"{related} of the related ones left out"] if related else []
    return f"Within {budget} tokens: {', '.join(cuts)}." if cuts else ""


@dataclass(frozen=True, slots=True)
class ContextFit:
    """How many of the newest messages fit, and the indexes of the related ones that fit too."""

    recent: int
    related: tuple[int, ...]


def fit_context(
    room: int,
    *,
    recent: Sequence[int],
    related: Sequence[int],
    same: Mapping[int, int] | None = None,
    most: int | None = None,
) -> ContextFit:
    """Choose, by their cost in tokens, an unbroken run of the newest messages and the best related ones that fit.

    The newest get half of the room, the related ones the rest, and the newest what these leave. `same` maps related messages
    to their index among the newest: they are included once. At most `most` related ones are chosen.
    """
    places = same or {}
    run = _run(recent, max(room, 0) // 2)
    spare = room - sum(recent[:run])
    selection: list[int] = []
    for place, cost in enumerate(related):
        if cost <= spare and len(selection) != most and places.get(place, run) >= run:
            selection.append(place)
            spare -= cost
    twice = {where: place for place, where in places.items()}
    for cost in recent[run:]:
        freed = related[twice[run]] if twice.get(run) in selection else 0
        if cost > spare + freed:
            break
        spare += freed - cost
        selection = [place for place in selection if place != twice.get(run)]
        run += 1
    return ContextFit(run, tuple(selection))


def _run(costs: Sequence[int], room: int) -> int:
    for number, cost in enumerate(costs):
        room -= cost
        if room < 0:
            return number
    return len(costs)

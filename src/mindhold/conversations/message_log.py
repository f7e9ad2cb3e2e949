"""Operations on the message log: save, list, show, search and delete messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from mindhold.capture.claude_md import update_documents
from mindhold.conversations.messages import (
    SESSION,
    MessageView,
    ProjectId,
    StorageBackend,
    asked_session,
    at_end,
    extras_of,
    firsts_of,
    in_full,
    is_message,
    is_part,
    message_fields,
    message_request,
    messages_where,
    pages,
    recent_messages,
    role_of,
    roomy,
    search_project,
    session_name,
    whole_texts,
)
from mindhold.conversations.recap_queue import recap_jobs
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.forget import erase
from mindhold.memories.prepare import LARGEST_NUMBER, PARTS, checked_moment
from mindhold.memories.recall import Hit
from mindhold.memories.views import NextCursor, next_cursor, page_start
from mindhold.memories.write import Verbatim, write
from mindhold.model.errors import MemoryNotFound, MessageNotFound, NoCriteria, SessionNotFound, TaskNotFound
from mindhold.model.lifecycle import is_kept_for_good
from mindhold.model.memory import ANY_STATUS, PART_KEY, Memory, Status
from mindhold.model.query import Filter, Order
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.placement import mode_of, open_project

BATCH = 500  # so that others write in between
TRIES = 5  # of a batch of which others take something away meanwhile


async def _erased(
    engine: Engine, where: Filter, *, agent: str, force: bool, named: bool
) -> tuple[int, int, Sequence[Memory]]:
    count = kept = 0
    last: list[Memory] = []
    async for page in pages(engine, where, size=BATCH):
        going = [memory for memory in page if force or named or not is_kept_for_good(memory)]
        kept += len(page) - len(going)
        count += await _gone(engine, going, agent=agent, force=force or not named)
        last = going or last
    return count, kept, last


async def _gone(engine: Engine, messages: Sequence[Memory], *, agent: str, force: bool) -> int:
    """How many of them were there to be erased: others may take some away at the same time."""
    ids = [message.id for message in messages]
    for tried in range(TRIES):
        if not ids:
            return 0
        try:
            await erase(engine, ids, agent=agent, force=force)
        except MemoryNotFound:
            if tried == TRIES - 1:
                raise
            ids = list(await engine.store.get_many(ids, viewer=agent))
        else:
            break
    return len(ids)


async def _check_named(
    engine: Engine, *, session: str | None, task: int | None, project: str, agent: str
) -> None:
    """Raises SessionNotFound or TaskNotFound where nothing has that session or task."""
    if session is not None:
        where = _everywhere(messages_where(project, viewer=agent, conversation=session))
        if not await engine.store.count(where, most=1):
            raise SessionNotFound(session, project=project)
    if task is not None:
        where = _everywhere(messages_where(project, viewer=agent, task=task))
        if not await engine.store.count(where, most=1):
            raise TaskNotFound(task, project=project)


def _everywhere(where: Filter) -> Filter:
    """Of whatever status and trust: what was set aside is deleted too."""
    return replace(where, statuses=ANY_STATUS, minimum_trust=0.0)


async def _message(engine: Engine, message_id: str, *, project: str, agent: str) -> Memory | None:
    found = (await engine.store.get_many([message_id], viewer=agent)).get(message_id)
    if found is not None and is_part(found):
        found = (await firsts_of(engine, [found], agent=agent)).get(found.id)
    return found if found is not None and found.scope == project and is_message(found) else None


NOBODY = "system"  # who says what is no message
_FORMS = frozenset({"int8", "float", "float32", "fp32"})


def plain_model(name: str | None) -> str | None:
    """The model's own name, without who serves it and in which form: as other programs call it."""
    if name is None:
        return None
    model = name.partition(":")[2] or name
    own, _, form = model.rpartition("/")
    return own if own and (form in _FORMS or form.isdecimal()) else model


class WholeMessageView(MessageView):
    """One message with all of its text, and what was given along with it."""

    metadata: dict[str, Any] = Field(
        default={}, description="Free metadata, stored unchanged.", examples=[{"session_id": "abc-123"}]
    )
    indexed: bool = Field(description="Whether it has a vector already.", examples=[True])
    quarantined: bool = Field(
        default=False,
        description="Whether it reads like instructions: then it is stored but only shown by its id.",
        examples=[False],
    )


class FoundView(Output):
    """One thing that a project remembers: a message, or any other memory, told by `kind` (its `message_type` is `system`).

    Of a long message `content` is what answers best; `truncated` says that there is more of it, which its `id` gives whole.
    Results are in order of `score`, which weighs words and meaning together. `similarity` is the cosine of the question's
    vector and its own; where no vector was compared, for it has none yet or there is no model, it is the score.
    """

    id: str = Field(description="Its id.", examples=["01k2v9c3m4q8r7t6w5x1y0z2ac"])
    content: str = Field(
        description="The text.", examples=["We implemented JWT authentication with refresh tokens."]
    )
    message_type: str = Field(description="Who said it.", examples=["assistant"])
    timestamp: datetime = Field(description="When it was said.", examples=["2025-11-25T14:20:00Z"])
    task_id: int | None = Field(default=None, description="The task that it belongs to.", examples=[38])
    similarity: float = Field(description="Similarity in meaning, from 0 to 1.", examples=[0.89])
    score: float = Field(description="Relevance score, from 0 to 1.", examples=[0.93])
    metadata: dict[str, Any] = Field(
        default={},
        description="Free metadata, stored unchanged.",
        examples=[{"session_id": "xyz-789", "context": "security-feature"}],
    )
    kind: str = Field(description="Its kind.", examples=["episode"])
    session_id: str | None = Field(
        default=None, description="The session that it was said in.", examples=["xyz-789"]
    )
    truncated: bool = Field(default=False, description="Whether the text was shortened.", examples=[False])

    @classmethod
    def of(cls, hit: Hit) -> FoundView:
        """The hit as its view."""
        memory = hit.memory
        return cls(
            **message_fields(memory) | {"message_type": role_of(memory) or NOBODY},
            content=hit.content,
            similarity=_share(hit.score if hit.similarity is None else hit.similarity),
            score=_share(hit.score),
            metadata=extras_of(memory) if role_of(memory) else {},
            kind=memory.kind,
            truncated=hit.truncated or PARTS in memory.metadata or PART_KEY in memory.metadata,
        )


def _share(value: float) -> float:
    return round(min(1.0, max(0.0, value)), 4)


MessageType = Literal["user", "assistant", "system"]
LONGEST_WORD = 1_000  # characters of an id, a session or a cursor


class SaveMessageInput(Input):
    """One turn of a conversation. No project means the scope that the call is made in."""

    project: ProjectId = None
    message_type: MessageType = Field(description="Who said it.", examples=["user"])
    content: str = Field(
        description="The message's text. Secrets, invisible characters and trailing blanks are removed.",
        examples=["How do I implement authentication?"],
    )
    task_id: int | None = Field(
        default=None, ge=0, le=LARGEST_NUMBER, description="The task that it is about.", examples=[42]
    )
    metadata: dict[str, Any] | None = Field(
        default=None,
        description="Anything; `session_id` names the conversation, `timestamp` says when it was said.",
        examples=[
            {
                "session_id": "abc-123",
                "timestamp": "2025-11-27T10:30:00Z",
                "context": "authentication-feature",
            }
        ],
    )
    conversation: str | None = Field(
        default=None, description="The conversation's id; overrides `session_id` in the metadata."
    )
    timestamp: datetime | None = Field(
        default=None, description="When it was said; overrides `timestamp` in the metadata."
    )
    create_project: bool = True


class SaveMessageResult(Output):
    """The message's id, and whether it is found by meaning already; if not, that is caught up with later."""

    message_id: str = Field(description="The message's id.", examples=["01k2v9c3m4q8r7t6w5x1y0z2ab"])
    status: str = Field(default="saved", description="Its status.", examples=["saved"])
    indexed: bool = Field(description="Whether it has a vector already.", examples=[True])
    embedding_model: str | None = Field(
        default=None, description="The embedding model; null if there is none.", examples=["all-MiniLM-L6-v2"]
    )
    storage_backend: StorageBackend
    project: str = Field(description="The project's name.", examples=["proj_123"])
    quarantined: bool = Field(
        default=False,
        description="Whether it reads like instructions: then it is stored but only shown by its id.",
        examples=[False],
    )
    redacted: list[str] = Field(
        default=[], description="Kinds of secrets and personal data that were replaced.", examples=[[]]
    )


class RecentMessagesInput(Input):
    """Which messages of which project."""

    project: ProjectId = None
    limit: int = Field(default=50, ge=1, le=200, description="Maximum number of results.", examples=[50])
    conversation: str | None = Field(default=None, description="Only messages of this session.")
    task_id: int | None = Field(default=None, description="Only messages of this task.")
    whole: bool = False  # as they were saved, not what a reader has room for


class RecentMessagesResult(Output):
    """The newest messages, oldest of them first."""

    messages: list[MessageView] = Field(
        description="Messages.",
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
        ],
    )
    count: int = Field(description="Number of items in this answer.", examples=[2])
    storage_backend: StorageBackend


class ListMessagesInput(Input):
    """Which messages of which project, page by page."""

    project: ProjectId = None
    limit: int = Field(default=50, ge=1, le=200, description="Maximum number of results.", examples=[2])
    cursor: str | None = Field(
        default=None, max_length=LONGEST_WORD, description="`next` of the previous page."
    )
    conversation: str | None = Field(
        default=None, description="Only messages of this session.", examples=["abc-123"]
    )
    task_id: int | None = Field(default=None, description="Only messages of this task.")
    since: datetime | None = Field(default=None, description="Only messages from this time on.")
    until: datetime | None = Field(default=None, description="Only messages from before this time.")
    order: Literal["newest", "oldest"] = Field(default="newest", description="Sort order.")
    whole: bool = False  # as they were saved; else of long ones the first part


class ListMessagesResult(Output):
    """A page; `next` continues it, whatever is written or deleted meanwhile, and is null on the last one."""

    messages: list[MessageView] = Field(
        description="Messages.",
        examples=[
            [
                {
                    "id": "01k2v9c3m4q8r7t6w5x1y0z2ac",
                    "message_type": "assistant",
                    "content": "To add authentication, use FastAPI with JWT tokens.",
                    "timestamp": "2025-11-27T10:31:00Z",
                },
                {},
            ]
        ],
    )
    next: NextCursor = None
    storage_backend: StorageBackend


class ShowMessageInput(Input):
    """Which message of which project."""

    project: ProjectId = None
    message_id: str = Field(
        max_length=LONGEST_WORD,
        description="The message's id, from the answer that saved it.",
        examples=["01k2v9c3m4q8r7t6w5x1y0z2ab"],
    )


class SearchMessagesInput(Input):
    """What to look for in a project."""

    project: ProjectId = None
    query: str = Field(
        description="A question in plain words.", examples=["authentication implementation patterns"]
    )
    limit: int = Field(default=20, ge=1, le=100, description="Maximum number of results.", examples=[20])
    conversation: str | None = Field(default=None, description="Only messages of this session.")
    whole: bool = False  # as they were saved, not what a reader has room for
    summary: bool = True  # whether the project's summary is among what may be found


class SearchMessagesResult(Output):
    """The most relevant first."""

    results: list[FoundView] = Field(description="Results, the best first.")
    nearest: list[FoundView] = Field(
        default=[],
        description="If nothing probably answers, there are no results, and here are the nearest few: doubtful.",
    )
    query_embedding_model: str | None = Field(
        default=None,
        description="The embedding model of the query; null if only words were compared.",
        examples=["all-MiniLM-L6-v2"],
    )
    search_method: str = Field(
        description="`hybrid` (full text and vectors) or `full_text`.", examples=["hybrid"]
    )
    count: int = Field(description="Number of items in this answer.", examples=[1])
    storage_backend: StorageBackend


class DeleteMessagesInput(Input):
    """Which messages go for good: all that is given holds of each. Something must be given."""

    project: ProjectId = None
    message_id: str | None = Field(default=None, max_length=LONGEST_WORD, description="This message.")
    conversation: str | None = Field(default=None, description="Messages of this session.")
    task_id: int | None = Field(default=None, description="Messages of this task.", examples=[42])
    before: datetime | None = Field(default=None, description="Messages from before this time.")
    force: bool = Field(default=False, description="Also anchors and permanent memories.")


class DeleteMessagesResult(Output):
    """How many went. What is kept for good was passed over, unless forced."""

    deleted_count: int = Field(description="How many messages were deleted.", examples=[42])
    storage_backend: StorageBackend
    kept_count: int = Field(default=0, examples=[0])
    notice: str = Field(
        default="", description="A notice about this answer; usually empty.", examples=[""]
    )  # of documents that couldn't be written


async def _save(context: Context, request: SaveMessageInput) -> SaveMessageResult:
    """Add one message to a project's log."""
    engine, metadata = context.engine, request.metadata or {}
    session = session_name(engine, request.conversation) or session_name(engine, metadata.get(SESSION))
    project = (await open_project(engine, request.project, create=request.create_project, writing=True)).name
    message = message_request(
        engine,
        request.message_type,
        request.content,
        project=project,
        conversation=session or context.conversation,
        task=request.task_id,
        metadata=metadata,
        occurred=request.timestamp,
    )
    result = await write(
        engine,
        await at_end(engine, message),
        agent=context.agent,
        verbatim=Verbatim(along=recap_jobs(engine)),
    )
    return SaveMessageResult(
        message_id=result.stored_memory().id,
        indexed=result.embedded,
        embedding_model=plain_model(engine.vector_source.model) if result.embedded else None,
        storage_backend=await mode_of(engine, project),
        project=project,
        quarantined=bool(result.suspicious),
        redacted=[finding.kind for finding in result.redacted],
    )


SAVE_MESSAGE = operation("save_message", _save, writes=True)


async def _recent(context: Context, request: RecentMessagesInput) -> RecentMessagesResult:
    """The newest messages of a project."""
    messages = await recent_messages(
        context.engine,
        request.project,
        agent=context.agent,
        limit=request.limit,
        conversation=request.conversation,
        task=request.task_id,
        whole=request.whole,
    )
    project = (await open_project(context.engine, request.project)).name
    return RecentMessagesResult(
        messages=messages, count=len(messages), storage_backend=await mode_of(context.engine, project)
    )


RECENT_MESSAGES = operation("recent_messages", _recent, reads=True)


async def _list(context: Context, request: ListMessagesInput) -> ListMessagesResult:
    """The messages of a project, page by page."""
    name = (await open_project(context.engine, request.project)).name
    order = Order(request.order)
    where = messages_where(
        name,
        viewer=context.agent,
        conversation=asked_session(context.engine, request.conversation),
        task=request.task_id,
        since=_moment(context, request.since),
        until=_moment(context, request.until),
    )
    after = page_start(order, cursor=request.cursor)
    page = await context.engine.store.find(where, order=order, limit=request.limit, after=after)
    messages = list(filter(is_message, page))
    return ListMessagesResult(
        messages=await in_full(context.engine, messages, agent=context.agent)
        if request.whole
        else [MessageView.of(message) for message in messages],
        next=next_cursor(page, order, limit=request.limit),
        storage_backend=await mode_of(context.engine, name),
    )


LIST_MESSAGES = operation("list_messages", _list, reads=True)


async def _show(context: Context, request: ShowMessageInput) -> WholeMessageView:
    """One message of a project, whole.

    Also by the id of one of its parts, and of what is quarantined: nobody comes upon it by its id."""
    project = (await open_project(context.engine, request.project)).name
    message = await _message(context.engine, request.message_id, project=project, agent=context.agent)
    if message is None or message.status is Status.FORGOTTEN:
        raise MessageNotFound(request.message_id, project=project)
    return WholeMessageView(
        **message_fields(message),
        content=(await whole_texts(context.engine, [message], agent=context.agent))[message.id],
        metadata=extras_of(message),
        indexed=message.embedded_by is not None,
        quarantined=message.status is Status.QUARANTINED or message.trust < LEAST_TRUST,
    )


SHOW_MESSAGE = operation("show_message", _show, reads=True)


async def _search(context: Context, request: SearchMessagesInput) -> SearchMessagesResult:
    """Find what a project remembers."""
    found = await search_project(
        roomy(context.engine, answers=request.limit) if request.whole else context.engine,
        request.project,
        request.query,
        agent=context.agent,
        limit=request.limit,
        conversation=request.conversation,
        summary=request.summary,
    )
    meaning = context.engine.vector_source
    by_meaning = meaning.model is not None and not meaning.reason
    return SearchMessagesResult(
        results=[FoundView.of(hit) for hit in found.hits],
        nearest=[FoundView.of(hit) for hit in found.nearest],
        query_embedding_model=plain_model(meaning.model) if by_meaning else None,
        search_method="hybrid" if by_meaning else "full_text",
        count=len(found.hits),
        storage_backend=await mode_of(context.engine, found.scopes[0]),
    )


SEARCH_MESSAGES = operation("search_messages", _search, reads=True)


async def _delete(context: Context, request: DeleteMessagesInput) -> DeleteMessagesResult:
    """Remove messages of a project for good.

    Parts, links, vectors and what was made of them go too.

    A message that is kept for good goes only with `force`: named by its id it is refused, else passed over.
    """
    engine, agent, message_id = context.engine, context.agent, request.message_id
    before = _moment(context, request.before)
    session = asked_session(engine, request.conversation)
    if all(criterion is None for criterion in (message_id, session, request.task_id, before)):
        raise NoCriteria(
            "Nothing says which messages are to be deleted.",
            advice="Give message_id, session_id, task_id or before_date.",
        )
    project = (await open_project(engine, request.project)).name
    where = _everywhere(
        messages_where(project, viewer=agent, conversation=session, task=request.task_id, until=before)
    )
    if message_id is not None:
        named = await _message(engine, message_id, project=project, agent=agent)
        if named is None:
            raise MessageNotFound(message_id, project=project)
        where = replace(where, ids=(named.id,))
    count, kept, last = await _erased(engine, where, agent=agent, force=request.force, named=bool(message_id))
    if not count + kept:
        await _check_named(engine, session=session, task=request.task_id, project=project, agent=agent)
    notice = await update_documents(engine, last)
    return DeleteMessagesResult(
        deleted_count=count,
        storage_backend=await mode_of(engine, project),
        kept_count=kept,
        notice=notice,
    )


DELETE_MESSAGES = operation("delete_messages", _delete, destroys=True)


def _moment(context: Context, moment: datetime | None) -> datetime | None:
    return None if moment is None else checked_moment(context.engine, moment)

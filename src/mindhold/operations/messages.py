"""Operations on the log of a project: what was said in it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from mindhold.engine.checks import LARGEST_NUMBER, checked_moment
from mindhold.engine.housing import mode_of
from mindhold.engine.message_log import Criteria, delete_messages, message_page, show_message
from mindhold.engine.message_session import asked_session, session_name
from mindhold.engine.messages import (
    SESSION,
    Message,
    in_full,
    is_message,
    messages_where,
    recent_messages,
    roomy,
    save_message,
    search_project,
    shown,
)
from mindhold.engine.projects import open_project
from mindhold.model.query import Order
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.paging import next_cursor, started
from mindhold.operations.project_views import FoundView, MessageView, WholeMessageView, plain_model

MessageType = Literal["user", "assistant", "system"]
LONGEST_WORD = 1_000  # characters of an id, a session or a cursor


class SaveMessageInput(Input):
    """One turn of a conversation. No project means the scope that the call is made in."""

    project: str | None = None
    message_type: MessageType = Field(description="Who speaks.")
    content: str = Field(
        description="What was said. Its words stay; secrets, invisible characters and blanks at the ends of lines don't."
    )
    task_id: int | None = Field(
        default=None, ge=0, le=LARGEST_NUMBER, description="The task that it is about."
    )
    metadata: dict[str, Any] | None = Field(
        default=None,
        description="Anything; `session_id` names the conversation, `timestamp` says when it was said.",
    )
    conversation: str | None = Field(
        default=None, description="Names the conversation, before what the metadata says."
    )
    timestamp: datetime | None = Field(
        default=None, description="When it was said, before what the metadata says."
    )
    create_project: bool = True


class SaveMessageResult(Output):
    """The message's id, and whether it is found by meaning already; if not, that is caught up with later."""

    message_id: str
    status: str = "saved"
    indexed: bool
    embedding_model: str | None = None
    storage_backend: str
    project: str
    quarantined: bool = False  # it reads like instructions to its reader: kept, and shown by its id alone
    redacted: list[str] = []  # kinds of secrets and personal data that were replaced


class RecentMessagesInput(Input):
    """Which messages of which project."""

    project: str | None = None
    limit: int = Field(default=50, ge=1, le=200, description="How many at most.")
    conversation: str | None = Field(default=None, description="Only of this session.")
    task_id: int | None = Field(default=None, description="Only about this task.")
    whole: bool = False  # as they were saved, not what a reader has room for


class RecentMessagesResult(Output):
    """The newest messages, oldest of them first."""

    messages: list[MessageView]
    count: int
    storage_backend: str


class ListMessagesInput(Input):
    """Which messages of which project, page by page."""

    project: str | None = None
    limit: int = Field(default=50, ge=1, le=200, description="How many at most.")
    cursor: str | None = Field(
        default=None, max_length=LONGEST_WORD, description="`next` of the page before."
    )
    conversation: str | None = Field(default=None, description="Only of this session.")
    task_id: int | None = Field(default=None, description="Only about this task.")
    since: datetime | None = Field(default=None, description="Said at or after.")
    until: datetime | None = Field(default=None, description="Said before.")
    order: Literal["newest", "oldest"] = Field(default="newest", description="Which come first.")
    whole: bool = False  # as they were saved; else of long ones the first part


class ListMessagesResult(Output):
    """A page; `next` continues it, whatever is written or deleted meanwhile, and is null on the last one."""

    messages: list[MessageView]
    next: str | None = None
    storage_backend: str


class ShowMessageInput(Input):
    """Which message of which project."""

    project: str | None = None
    message_id: str = Field(max_length=LONGEST_WORD, description="As saving told it.")


class SearchMessagesInput(Input):
    """What to look for in a project."""

    project: str | None = None
    query: str = Field(description="A question in plain words.")
    limit: int = Field(default=20, ge=1, le=100, description="How many at most.")
    conversation: str | None = Field(default=None, description="Only of this session.")
    whole: bool = False  # as they were saved, not what a reader has room for
    summary: bool = True  # whether the project's summary is among what may be found


class SearchMessagesResult(Output):
    """The most relevant first."""

    results: list[FoundView]
    query_embedding_model: str | None = None
    search_method: str
    count: int
    storage_backend: str


class DeleteMessagesInput(Input):
    """Which messages go for good: all that is given holds of each. Something must be given."""

    project: str | None = None
    message_id: str | None = Field(default=None, max_length=LONGEST_WORD, description="This message.")
    conversation: str | None = Field(default=None, description="Those of this session.")
    task_id: int | None = Field(default=None, description="Those about this task.")
    before: datetime | None = Field(default=None, description="Those that were said before.")
    force: bool = Field(default=False, description="Also what is kept for good: anchors, and permanent ones.")


class DeleteMessagesResult(Output):
    """How many went. What is kept for good was passed over, unless forced."""

    deleted_count: int
    storage_backend: str
    kept_count: int = 0
    notice: str = ""  # of documents that couldn't be written


async def _save(call: Call, given: SaveMessageInput) -> SaveMessageResult:
    metadata = given.metadata or {}
    said_in = session_name(call.engine, given.conversation) or session_name(
        call.engine, metadata.get(SESSION)
    )
    message = Message(
        role=given.message_type,
        content=given.content,
        project=given.project,
        task=given.task_id,
        conversation=said_in or call.conversation,
        metadata=metadata,
        occurred=given.timestamp,
    )
    kept = await save_message(call.engine, message, agent=call.agent, create_project=given.create_project)
    return SaveMessageResult(
        message_id=kept.memory.id,
        indexed=kept.embedded,
        embedding_model=plain_model(call.engine.meaning.model) if kept.embedded else None,
        storage_backend=await mode_of(call.engine, kept.memory.scope),
        project=kept.memory.scope,
        quarantined=bool(kept.suspicious),
        redacted=list(kept.redacted),
    )


async def _recent(call: Call, given: RecentMessagesInput) -> RecentMessagesResult:
    messages = await recent_messages(
        roomy(call.engine, answers=given.limit) if given.whole else call.engine,
        given.project,
        agent=call.agent,
        limit=given.limit,
        conversation=given.conversation,
        task=given.task_id,
    )
    if given.whole:  # the newest have the room
        messages = await in_full(call.engine, [one.memory for one in reversed(messages)], agent=call.agent)
        messages.reverse()
    return RecentMessagesResult(
        messages=[MessageView.of(one) for one in messages],
        count=len(messages),
        storage_backend=await _backend(call, given.project),
    )


async def _list(call: Call, given: ListMessagesInput) -> ListMessagesResult:
    name = (await open_project(call.engine, given.project)).name
    order = Order(given.order)
    where = messages_where(
        name,
        viewer=call.agent,
        conversation=asked_session(call.engine, given.conversation),
        task=given.task_id,
        since=_moment(call, given.since),
        until=_moment(call, given.until),
    )
    after = started(order, cursor=given.cursor)
    page = await message_page(call.engine, where, order=order, limit=given.limit, after=after)
    messages = [one for one in page if is_message(one)]
    told = await in_full(call.engine, messages, agent=call.agent) if given.whole else map(shown, messages)
    return ListMessagesResult(
        messages=[MessageView.of(one) for one in told],
        next=next_cursor(page, order, limit=given.limit),
        storage_backend=await mode_of(call.engine, name),
    )


async def _show(call: Call, given: ShowMessageInput) -> WholeMessageView:
    found = await show_message(call.engine, given.project, given.message_id, agent=call.agent)
    return WholeMessageView.of_whole(found)


async def _search(call: Call, given: SearchMessagesInput) -> SearchMessagesResult:
    found = await search_project(
        roomy(call.engine, answers=given.limit) if given.whole else call.engine,
        given.project,
        given.query,
        agent=call.agent,
        limit=given.limit,
        conversation=given.conversation,
        summary=given.summary,
    )
    meaning = call.engine.meaning
    by_meaning = meaning.model is not None and not meaning.reason
    return SearchMessagesResult(
        results=[FoundView.of(hit) for hit in found.hits],
        query_embedding_model=plain_model(meaning.model) if by_meaning else None,
        search_method="hybrid" if by_meaning else "full_text",
        count=len(found.hits),
        storage_backend=await mode_of(call.engine, found.scopes[0]),
    )


async def _delete(call: Call, given: DeleteMessagesInput) -> DeleteMessagesResult:
    criteria = Criteria(
        message=given.message_id,
        conversation=given.conversation,
        task=given.task_id,
        before=_moment(call, given.before),
    )
    gone = await delete_messages(call.engine, given.project, criteria, agent=call.agent, force=given.force)
    return DeleteMessagesResult(
        deleted_count=gone.count,
        storage_backend=await mode_of(call.engine, gone.project),
        kept_count=gone.kept,
        notice=gone.notice,
    )


async def _backend(call: Call, project: str | None) -> str:
    return await mode_of(call.engine, (await open_project(call.engine, project)).name)


def _moment(call: Call, given: datetime | None) -> datetime | None:
    return None if given is None else checked_moment(call.engine, given)


SAVE_MESSAGE = Operation(
    "save_message",
    "Add one message to a project's log.",
    SaveMessageInput,
    SaveMessageResult,
    _save,
    Effect.WRITES,
)
RECENT_MESSAGES = Operation(
    "recent_messages",
    "The newest messages of a project.",
    RecentMessagesInput,
    RecentMessagesResult,
    _recent,
    Effect.READS,
)
LIST_MESSAGES = Operation(
    "list_messages",
    "The messages of a project, page by page.",
    ListMessagesInput,
    ListMessagesResult,
    _list,
    Effect.READS,
)
SHOW_MESSAGE = Operation(
    "show_message",
    "One message of a project, whole.",
    ShowMessageInput,
    WholeMessageView,
    _show,
    Effect.READS,
)
SEARCH_MESSAGES = Operation(
    "search_messages",
    "Find what a project remembers.",
    SearchMessagesInput,
    SearchMessagesResult,
    _search,
    Effect.READS,
)
DELETE_MESSAGES = Operation(
    "delete_messages",
    "Remove messages of a project for good.",
    DeleteMessagesInput,
    DeleteMessagesResult,
    _delete,
    Effect.DESTROYS,
)

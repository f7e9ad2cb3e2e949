"""Operations on conversations as the doors hold them: they go on, and they end."""

from __future__ import annotations

from mindhold.engine.conversations import go_on
from mindhold.engine.endings import end_conversation, end_session
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output


class EndConversationInput(Input):
    """A conversation that its client left. One that isn't `over` may come back."""

    conversation: str
    over: bool = True  # if not, its working memory stays


class EndConversationResult(Output):
    """Whether it is reflected upon, in which memory, and how much of its working memory ended.

    `queued`: a model is asked for its words, and nobody waits for that.
    """

    reflected: bool
    id: str | None = None
    expired: int = 0
    queued: bool = False


class GoOnInput(Input):
    """A conversation that was silent, but is still there."""

    conversation: str


class GoOnResult(Output):
    """Whether it is open."""

    open: bool


class EndSessionInput(Input):
    """A session that its owner ended."""

    conversation: str


class EndSessionResult(Output):
    """How many conversations had its name."""

    ended: int


async def _end_conversation(call: Call, given: EndConversationInput) -> EndConversationResult:
    ending = await end_conversation(call.engine, given.conversation, agent=call.agent, over=given.over)
    return EndConversationResult(
        reflected=ending.reflection is not None,
        id=ending.reflection,
        expired=ending.expired,
        queued=ending.queued,
    )


async def _go_on(call: Call, given: GoOnInput) -> GoOnResult:
    return GoOnResult(open=await go_on(call.engine, given.conversation, agent=call.agent))


async def _end_session(call: Call, given: EndSessionInput) -> EndSessionResult:
    return EndSessionResult(ended=await end_session(call.engine, given.conversation))


END_CONVERSATION = Operation(
    "end_conversation",
    "End a conversation's working memory, and keep what it was about.",
    EndConversationInput,
    EndConversationResult,
    _end_conversation,
    Effect.WRITES,
)
GO_ON = Operation(
    "go_on",
    "Say that a silent conversation is still there.",
    GoOnInput,
    GoOnResult,
    _go_on,
    Effect.WRITES,
)
END_SESSION = Operation(
    "end_session",
    "End the conversations of a session, whoever spoke in it.",
    EndSessionInput,
    EndSessionResult,
    _end_session,
    Effect.WRITES,
    owner_only=True,
)

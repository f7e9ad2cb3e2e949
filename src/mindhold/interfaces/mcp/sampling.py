"""The client's own model as a rung of the ladder: asked only where the client offers it and the person allows it."""

from __future__ import annotations

import asyncio
from typing import Protocol

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata

from mindhold.interfaces.mcp.callers import Context, is_stateless
from mindhold.model.errors import ModelError
from mindhold.settings.llm import LlmSettings


class Spent(Protocol):
    """Told of every call of a language model."""

    def __call__(self, model: str, *, outcome: str, tokens_in: int, tokens_out: int) -> None: ...


def unspent(model: str, *, outcome: str, tokens_in: int, tokens_out: int) -> None:
    """For doors that keep no counts."""


class ClientModel:
    """Asks the client to complete. The client shows its person what is asked."""

    def __init__(
        self,
        session: ServerSession,
        *,
        request_id: types.RequestId | None,
        wait_seconds: float,
        spent: Spent,
    ) -> None:
        self._session = session
        self._request_id = request_id
        self._wait_seconds = wait_seconds
        self._spent = spent

    @property
    def name(self) -> str:
        """Whose model it is."""
        client = self._session.client_params
        return f"{client.client_info.name}'s model" if client else "the client's model"

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """The text of the answer. Raises ModelError."""
        from mindhold.model.tokens import count_tokens

        asked = count_tokens(system) + count_tokens(prompt)
        try:
            text = await self._answer(prompt, system=system, most_tokens=most_tokens)
        except ModelError:
            self._spent("sampling", outcome="failed", tokens_in=asked, tokens_out=0)
            raise
        self._spent("sampling", outcome="ok", tokens_in=asked, tokens_out=count_tokens(text))
        return text

    async def _answer(self, prompt: str, *, system: str, most_tokens: int) -> str:
        request = types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(
                messages=[
                    types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
                ],
                max_tokens=most_tokens,
                system_prompt=system,
                temperature=0.0,
            )
        )
        related = ServerMessageMetadata(related_request_id=self._request_id)
        try:
            async with asyncio.timeout(self._wait_seconds):
                answer = await self._session.send_request(
                    request, types.CreateMessageResult, metadata=related
                )
        except TimeoutError as error:
            raise ModelError("The client's model did not answer in time.") from error
        except (MCPError, NoBackChannelError) as error:
            raise ModelError(f"The client's model refused: {error}.") from error
        content = answer.content
        if not isinstance(content, types.TextContent) or not content.text.strip():
            raise ModelError("The client's model answered with something else than text.")
        return content.text


def offered_model(ctx: Context, settings: LlmSettings, *, spent: Spent) -> ClientModel | None:
    """The client's model, if it offers one and may be asked. The stateless protocol has no way to ask."""
    session = ctx.session
    capabilities = session.client_capabilities
    if not settings.sampling or is_stateless(ctx) or capabilities is None or capabilities.sampling is None:
        return None
    return ClientModel(session, request_id=ctx.request_id, wait_seconds=settings.wait_seconds, spent=spent)

"""The MCP server: answers every request of the protocol from the catalogue of operations."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mindhold import __version__
from mindhold.interfaces.mcp import resources
from mindhold.interfaces.mcp.requests import (
    CallContext,
    Context,
    LazyEngine,
    McpConversation,
    ModelCallObserver,
    OpenConversations,
    caller_of,
    connection_of,
    ignore_model_call,
    is_stateless,
    new_name,
    offered_model,
    progress_reporter,
)
from mindhold.interfaces.mcp.tools import Toolbox, advice_for, instructions_for, tool_error, tool_result
from mindhold.interfaces.runtime import OpenMindhold, call_operation
from mindhold.model.errors import InvalidInput, MindholdError, NotFound, Refused
from mindhold.model.prompt_markup import neutralize
from mindhold.model.scope import Caller
from mindhold.settings.schema import Settings

if TYPE_CHECKING:
    from mindhold.contracts.mcp.tools import Tool


log = logging.getLogger("mindhold.mcp")
OnInitialize = Callable[[str, Any, dict[str, Any], str], Awaitable[None]]  # session, request, client, version
GoesOn = Callable[[str], Awaitable[bool]]
Observe = Callable[[str, str, float], None]  # tool, outcome, seconds
NOT_FOUND_BEFORE_2026 = -32002
LISTS_STAY_FRESH_MS = 5_000
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
UNEXPECTED = "INTERNAL"
FAULT = "Something went wrong inside Mindhold."


class InternalFault(MindholdError):
    """Ours, not the caller's."""

    code = UNEXPECTED


class _Protocol(Server[Any]):
    """Every transport says that the tools may change; the SDK's HTTP manager asks for no options of ours."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **given: Any
    ) -> InitializationOptions:
        chosen = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(chosen, *args, **given)


def unobserved(_tool: str, _outcome: str, _seconds: float) -> None:
    """For doors that keep no counts."""


class McpServer:
    """One for a process; every transport serves it."""

    def __init__(
        self,
        opening: LazyEngine,
        *,
        settings: Settings,
        local: Caller,
        observe: Observe = unobserved,
        spent: ModelCallObserver = ignore_model_call,
    ) -> None:
        self._opening = opening
        self._settings = settings
        self._local = local
        self._observe = observe
        self._spent = spent
        self._toolbox: Toolbox | None = None
        self._bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self._bus)
        self.conversations = OpenConversations(self._ended)
        self.on_initialize: OnInitialize | None = None  # for a transport whose sessions are kept
        self.goes_on: GoesOn | None = None  # whether such a session may come back
        self.protocol = self._protocol()

    @property
    def toolbox(self) -> Toolbox:
        """The tools served now; made when first asked for, since a start must be quick."""
        if self._toolbox is None:
            self._toolbox = Toolbox(self._settings.toolsets)
        return self._toolbox

    async def serve_toolsets(self, toolsets: str) -> None:
        """Change what is served, and tell every client. Raises InvalidInput for an unknown toolset."""
        chosen = Toolbox(toolsets)
        if chosen.toolsets == self.toolbox.toolsets:
            return
        self._toolbox = chosen
        self.protocol.instructions = instructions_for(toolsets)
        for conversation in self.conversations:
            if conversation.session is not None:
                await conversation.session.send_tool_list_changed()
        await self._bus.publish(ToolsListChanged())

    async def end_conversations(self) -> None:
        """All that are open, for a server that stops before its clients go."""
        await self.conversations.end_all()

    def options(self) -> InitializationOptions:
        """What `initialize` answers."""
        return self.protocol.create_initialization_options()

    def _protocol(self) -> Server[Any]:
        hint = CacheHint(ttl_ms=LISTS_STAY_FRESH_MS, scope="private")
        server = _Protocol(
            "mindhold",
            version=__version__,
            title="Mindhold",
            description="Long-term memory for AI agents, on your own machine.",
            instructions=instructions_for(self._settings.toolsets),
            cache_hints={"tools/list": hint, "prompts/list": hint, "resources/templates/list": hint},
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
            on_subscriptions_listen=self.listening,
        )
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        server.middleware += [_without_traces, self._follow]
        return server

    async def _follow(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Begin the conversation with its first request, and the engine once `initialize` is answered."""
        if ctx.method == "initialize":
            return await self._begin(ctx, call_next)
        if is_stateless(ctx):
            result = await call_next(ctx)
            asyncio.get_running_loop().call_soon(self._opening.begin)
            return result
        connection = connection_of(ctx)
        if ctx.request_id is not None and self.conversations.of(connection) is None:
            name = connection.session_id or connection.state.setdefault("conversation", new_name())
            caller = caller_of(ctx, local=self._local)
            begun = McpConversation(name, caller, ctx.session, session_id=connection.session_id)
            self.conversations.begin(connection, begun)
        return await call_next(ctx)

    async def _begin(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        asyncio.get_running_loop().call_soon(self._opening.begin)
        session_id = connection_of(ctx).session_id
        if self.on_initialize and session_id and isinstance(result, dict):
            version = str(result.get("protocolVersion", ""))
            await self.on_initialize(session_id, ctx.request, dict(ctx.params or {}), version)
        return result

    async def _list_tools(self, _ctx: Context, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self.toolbox.definitions())

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        """For the SDK's look at a request's headers, which would list all tools for it."""
        return next((tool.input_schema for tool in self.toolbox.definitions() if tool.name == name), None)

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self.toolbox.tool(params.name)
        began = time.perf_counter()
        outcome = "ok"
        try:
            return await self._call(ctx, tool, params.arguments or {})
        except MindholdError as error:
            outcome = error.code.lower()
            return tool_error(error)
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Exception:  # the outermost handler of a call: the client gets words, the log gets the trace
            outcome = "internal"
            log.exception("tool %s failed", tool.name)
            return tool_error(InternalFault(FAULT, advice="`mindhold doctor` may help."))
        finally:
            seconds = time.perf_counter() - began
            self._observe(tool.name, outcome, seconds)
            log.info(
                "tool %s: %s",
                tool.name,
                outcome,
                extra={"tool": tool.name, "outcome": outcome, "ms": round(seconds * 1000, 1)},
            )

    async def _call(self, ctx: Context, tool: Tool, arguments: Mapping[str, Any]) -> types.CallToolResult:
        request = tool.request(arguments)
        caller = caller_of(ctx, local=self._local)
        running = await self._opening.running()
        conversation = self._conversation(ctx)
        async with progress_reporter(ctx) as told:
            output = await running.run(
                request.operation,
                request.given,
                progress=told,
                caller=caller,
                model=offered_model(ctx, self._settings.llm, spent=self._spent),
                conversation=conversation.id if conversation else None,
                agent=request.agent,
                tool=tool.name,
            )
        answer = tool_result(tool.answer(output))
        if conversation:
            if tool.effect != "reads":
                conversation.agents.add(request.agent or caller.agent)
            await _tell(ctx, conversation, getattr(output, "notice", ""))
        return answer

    async def _list_resources(self, ctx: Context, _params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=await resources.list_resources(await self._work(ctx)))

    async def _list_templates(self, _ctx: Context, _params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resources.TEMPLATES)

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            return await resources.read_resource(await self._work(ctx), str(params.uri))
        except (NotFound, InvalidInput) as error:
            modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            code = types.INVALID_PARAMS if modern else NOT_FOUND_BEFORE_2026
            told = {"uri": str(params.uri), "code": error.code}
            raise MCPError(code, neutralize(f"{error.message} {advice_for(error)}".strip()), told) from error

    async def _list_prompts(self, _ctx: Context, _params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=resources.PROMPTS)

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await resources.get_prompt(await self._work(ctx), params.name, params.arguments or {})

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Names of scopes, wherever one is asked for."""
        from mindhold.projects.scope_operations import LIST_SCOPES

        values: list[str] = []
        if params.argument.name in ("name", "project"):
            scopes = (await (await self._work(ctx)).run(LIST_SCOPES)).scopes
            begun = params.argument.value.casefold()
            values = [scope.name for scope in scopes if scope.name.casefold().startswith(begun)]
        completion = types.Completion(values=values[:100], total=len(values), has_more=len(values) > 100)
        return types.CompleteResult(completion=completion)

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        if conversation := self._conversation(ctx):
            conversation.log_level = params.level
        return types.EmptyResult()

    def _conversation(self, ctx: Context) -> McpConversation | None:
        """Over stdio one process is one conversation, also where the protocol has no sessions."""
        if is_stateless(ctx):
            return self.conversations.lone(self._local) if ctx.request is None else None
        return self.conversations.of(connection_of(ctx))

    async def _work(self, ctx: Context) -> CallContext:
        return CallContext(await self._opening.running(), caller_of(ctx, local=self._local))

    async def keep_conversations(self) -> None:
        """Say of those that are open that they are still there, however silent: for upkeep, now and then."""
        from mindhold.conversations.sessions import GO_ON

        running = self._opening.opened
        if running is None:
            return
        for conversation in self.conversations:
            for agent in sorted(conversation.agents):
                with _on_its_own("a conversation could not be kept open"):
                    await _work(running, conversation, agent).run(GO_ON, conversation=conversation.id)

    async def session_ended(self, session_id: str) -> None:
        """By its owner. Ended by its name: since a restart, or at another server, others may have written in it."""
        from mindhold.conversations.endings import END_SESSION

        running = self._opening.opened
        if running is not None:
            with _on_its_own("a session's conversations could not be ended"):  # then their silence ends them
                await call_operation(running, END_SESSION, conversation=session_id)

    async def _ended(self, conversation: McpConversation) -> None:
        """What a conversation leaves behind, for each agent that was spoken for. Where nothing was stored: nothing."""
        from mindhold.conversations.endings import END_CONVERSATION

        running = self._opening.opened
        if running is None:
            return
        over = True
        with _on_its_own("whether a session goes on could not be found out"):
            if conversation.session_id and self.goes_on:
                over = False  # what may come back keeps its working memory; silence ends it otherwise
                over = not await self.goes_on(conversation.session_id)
        for agent in sorted(conversation.agents):
            with _on_its_own("a conversation could not be reflected on"):
                work = _work(running, conversation, agent)
                await work.run(END_CONVERSATION, conversation=conversation.id, over=over)


@contextmanager
def _on_its_own(failed: str) -> Iterator[None]:
    """An outermost handler: what comes after this one must be done too."""
    try:
        yield
    except MindholdError as error:
        log.warning("%s: %s", failed, error.code)
    except Exception:
        log.exception(failed)


def _work(running: OpenMindhold, conversation: McpConversation, agent: str) -> CallContext:
    return CallContext(running, replace(conversation.caller, agent=agent))


async def _tell(ctx: Context, conversation: McpConversation, notice: str) -> None:
    """Tell the client what its person may want to know, such as a rung that is lower than it could be; each once."""
    quiet = LEVELS.index(conversation.log_level) > LEVELS.index("notice")
    if not notice or quiet or notice in conversation.told or is_stateless(ctx):
        return  # without sessions a client asks for logs call by call, and none does
    conversation.told.add(notice)
    params = types.LoggingMessageNotificationParams(level="notice", logger="mindhold", data=notice)
    with suppress(MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError):  # what was done stays done
        await ctx.session.send_notification(types.LoggingMessageNotification(params=params), ctx.request_id)


async def _without_traces(ctx: Context, call_next: CallNext) -> HandlerResult:
    """A fault of ours is told as such: its trace goes to the log, never to the client."""
    try:
        return await call_next(ctx)
    except MCPError:
        raise
    except ValidationError as error:
        from mindhold.operations import invalid_input

        raise _protocol_error(invalid_input(error, known=[])) from error
    except MindholdError as error:
        raise _protocol_error(error) from error
    except Exception as error:  # the outermost handler
        log.exception("%s failed", ctx.method)
        raise MCPError(types.INTERNAL_ERROR, FAULT, {"code": UNEXPECTED}) from error


def _protocol_error(error: MindholdError) -> MCPError:
    asked_wrongly = isinstance(error, InvalidInput | NotFound | Refused)
    code = types.INVALID_PARAMS if asked_wrongly else types.INTERNAL_ERROR
    advice = advice_for(error)
    return MCPError(
        code,
        neutralize(f"{error.message} {advice}".strip()),
        {"code": error.code, "advice": neutralize(advice)},
    )

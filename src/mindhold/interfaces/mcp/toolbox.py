"""The tools that are served, as the protocol lists them.

The dialects and the catalogue are imported when tools are first asked for: `initialize` doesn't wait for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mcp_types as types

from mindhold.model.errors import InvalidInput, MindholdError
from mindhold.model.neutral import neutral

if TYPE_CHECKING:
    from mindhold.dialects.shape import Tool


class Toolbox:
    """The tools of some toolsets."""

    def __init__(self, toolsets: str) -> None:
        from mindhold.dialects.toolsets import tools_of

        self.toolsets = tuple(name.strip() for name in toolsets.split(",") if name.strip()) or ("core",)
        self._tools = {tool.name: tool for tool in tools_of(self.toolsets)}
        self._listed: list[types.Tool] | None = None

    def __len__(self) -> int:
        return len(self._tools)

    def definitions(self) -> list[types.Tool]:
        """As tools/list answers."""
        if self._listed is None:
            self._listed = [_definition(tool) for tool in self._tools.values()]
        return self._listed

    def tool(self, name: str) -> Tool:
        """Raises InvalidInput for one that isn't served, saying which toolset has it."""
        if found := self._tools.get(name):
            return found
        from mindhold.dialects.toolsets import home_of

        home = home_of(name)
        advice = (
            f"It is in the toolset {home}: serve it with --toolsets or MINDHOLD_TOOLSETS."
            if home
            else f"There are: {', '.join(self._tools)}."
        )
        raise InvalidInput(f"Unknown tool: {name[:80]}.", advice=advice)


# Claude Code keeps tools out of the prompt until its model searches for them; these it must know of to begin with.
KEPT_IN_SIGHT = frozenset({"context", "recall", "remember"})


def _definition(tool: Tool) -> types.Tool:
    from mindhold.dialects.schema import input_schema, output_schema
    from mindhold.operations.catalogue import Effect

    reads = tool.effect is Effect.READS
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=input_schema(tool),
        output_schema=output_schema(tool),
        annotations=types.ToolAnnotations(
            read_only_hint=reads,
            destructive_hint=None if reads else tool.effect is Effect.DESTROYS,
            idempotent_hint=None if reads else tool.idempotent,
            open_world_hint=False,
        ),
        _meta={"anthropic/alwaysLoad": True} if tool.name in KEPT_IN_SIGHT else None,
    )


def answered(answer: Mapping[str, Any]) -> types.CallToolResult:
    """An answer, as structure and as the same in text for clients that can't read structure."""
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=dict(answer)
    )


_ADVICE = {  # where the error itself advises a person at a shell
    "MEMORY_NOT_FOUND": "recall finds memories and their ids; a forgotten one is not found.",
    "SCOPE_NOT_FOUND": "Leave the scope out, or name one that there is.",
    "MODEL_MISSING": "",
}


def advice_for(error: MindholdError) -> str:
    """What a model, which has tools and no shell, can do about it."""
    return _ADVICE.get(error.code, error.advice)


def failed(error: MindholdError) -> types.CallToolResult:
    """What went wrong and what to do, where the model sees it."""
    told = {"error": error.message, "code": error.code, "advice": advice_for(error)}
    text = json.dumps({name: neutral(value) for name, value in told.items() if value}, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)

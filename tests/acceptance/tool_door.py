"""Tools on a real store: arguments in, answer out, as a door would."""

from __future__ import annotations

from typing import Any

import jsonschema

from mindhold.app.application import App
from mindhold.contracts.mcp.tools import output_schema, tools_of

TOOLS = {tool.name: tool for tool in tools_of(["all"])}


async def use(
    app: App, tool_name: str, /, in_conversation: str | None = None, **arguments: Any
) -> dict[str, Any]:
    """One call, and that its answer is as its schema says."""
    tool = TOOLS[tool_name]
    request = tool.request(arguments)
    output = await app.run(request.operation, request.given, conversation=in_conversation, tool=tool_name)
    answer = tool.answer(output)
    jsonschema.validate(answer, output_schema(tool))
    return answer


def texts(answer: dict[str, Any]) -> list[str]:
    """Of the memories that an answer gives, in order."""
    return [one["text"] for one in answer["results"]]

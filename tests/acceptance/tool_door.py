"""Tools as a door uses them: arguments in, an answer of the promised shape out."""

from __future__ import annotations

from typing import Any

import jsonschema

from recollect.app import App
from recollect.dialects.schema import output_schema
from recollect.dialects.toolsets import tools_of

TOOLS = {tool.name: tool for tool in tools_of(["all"])}


async def use(app: App, tool_name: str, **arguments: Any) -> dict[str, Any]:
    tool = TOOLS[tool_name]
    request = tool.request(arguments)
    answer = tool.answer(await app.run(request.operation, request.given))
    jsonschema.validate(answer, output_schema(tool))
    return answer


def texts(answer: dict[str, Any]) -> list[str]:
    return [one["text"] for one in answer["results"]]

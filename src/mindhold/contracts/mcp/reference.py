"""Writes docs/TOOLS.md from the contracts: `python -m mindhold.contracts.mcp.reference`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mindhold.contracts.mcp.tools import (
    CONTRACTS,
    CORE,
    Tool,
    contract,
    input_schema,
    output_schema,
    tools_of,
)

PLACE = Path("docs") / "TOOLS.md"
_HEAD = """\
# Tools

<!-- Made by `make docs` from src/mindhold/contracts/mcp. Change it there. -->

Every tool is a name for an operation of the one catalogue, so what one stores every other finds. Serve toolsets with
`mindhold mcp --toolsets core,history`, with `MINDHOLD_TOOLSETS`, or with the setting `toolsets`; `all` serves
every tool. Arguments that are not listed are refused. An answer's `notice` says that it carries remembered text, which
is data and never an instruction; markup in it that could pass for a prompt's own is made harmless.
"""


def reference() -> str:
    """The text of docs/TOOLS.md."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    yield "| toolset | tools |"
    yield "|---|---|"
    yield f"| `{CORE}` (default) | {_names(tools_of([CORE]))} |"
    for name in CONTRACTS:
        yield f"| `{name}` | {_names(contract(name).tools)} |"
    for name in CONTRACTS:
        contract_data = contract(name)
        yield f"\n## {name}\n\n{contract_data.summary}"
        for tool in contract_data.tools:
            yield from _tool(tool)
    yield ""


def _names(tools: tuple[Tool, ...]) -> str:
    return ", ".join(f"[{tool.name}](#{tool.name})" for tool in tools)


def _tool(tool: Tool) -> Iterator[str]:
    yield f"\n### {tool.name}\n\n{tool.description}\n"
    yield f"It {tool.effect.value}: operation `{tool.operation}`.\n"
    takes = input_schema(tool)
    if takes["properties"]:
        yield "| argument | type | default | |"
        yield "|---|---|---|---|"
        yield from _arguments(takes, above="")
    else:
        yield "No arguments."
    yield f"\nAnswer: {_shape(output_schema(tool))}"


def _arguments(schema: Mapping[str, Any], *, above: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, argument in schema["properties"].items():
        default = "**required**" if name in required else ""
        if "default" in argument:
            default = f"`{json.dumps(argument['default'], ensure_ascii=False)}`"
        yield f"| `{above}{name}` | {_type(argument)} | {default} | {argument.get('description', '')} |"
        if "properties" in argument:
            yield from _arguments(argument, above=f"{above}{name}.")
        elif "properties" in argument.get("items", {}):
            yield from _arguments(argument["items"], above=f"{above}{name}[].")


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    words = {"date-time": "time"}.get(schema.get("format", ""), schema["type"])
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f"{words}, {least} to {most}"
    return f"{words}, at least {least}" if least is not None else str(words)


def _shape(schema: Mapping[str, Any]) -> str:
    if schema["type"] == "array":
        return f"[{_shape(schema['items'])}, …]" if "properties" in schema["items"] else "[…]"
    if "properties" not in schema:
        return ""
    inner = [
        f"{name}: {shape}" if (shape := _shape(value)) else name
        for name, value in schema["properties"].items()
    ]
    return "{" + ", ".join(inner) + "}"


if __name__ == "__main__":
    PLACE.write_text(reference(), encoding="utf-8", newline="\n")

"""`mindhold actions`: the assistant's tools for scripts, a JSON object a line in, a JSON answer a line out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from mindhold.interfaces.cli.command import command, with_desk
from mindhold.interfaces.cli.session import NEED_MEANING, Desk
from mindhold.model.errors import ContentTooLarge, InvalidInput, MindholdError
from mindhold.model.neutral import neutral

if TYPE_CHECKING:
    from mindhold.dialects.shape import Tool

ACTION = "action"
LONGEST_LINE = 8 << 20  # bytes: the longest text that is stored, however it is escaped
_SKIPPED = 1 << 16


@command(
    "actions",
    examples=[
        """echo '{"action": "store_memory", "content": "Tea at four."}' | mindhold actions""",
        "mindhold actions < script.jsonl > answers.jsonl",
    ],
)
@with_desk
async def actions(desk: Desk) -> int:
    """Read the assistant's actions from stdin, one JSON object a line.

    Each line is answered by one on stdout, in order and at once. A line that fails is answered with its error, and the next is read;
    the exit status is 1 if there was one. The actions are the tools of the toolset `assistant`, with their arguments beside `action`.
    """
    from mindhold.dialects.toolsets import dialect

    tools = {tool.name: tool for tool in dialect("assistant").tools}
    failed = 0
    for line in _lines(sys.stdin.buffer):
        try:
            answer = await _acted(desk, tools, line)
        except MindholdError as error:
            failed += 1
            answer = _failure(error)
        desk.console.record(answer)
    return 1 if failed else 0


async def _acted(desk: Desk, tools: Mapping[str, Tool], line: bytes | None) -> Mapping[str, Any]:
    given = _read(line)
    name = given.pop(ACTION, None)
    if not isinstance(name, str):
        raise InvalidInput("The action is missing.", advice=f"Give one of: {', '.join(tools)}.")
    tool = tools.get(name)
    if tool is None:
        raise InvalidInput(f"Unknown action: {name[:80]}.", advice=f"There are: {', '.join(tools)}.")
    request = tool.request(given)
    if request.operation.name in NEED_MEANING:
        desk.running.warm()
    return tool.answer(await desk.running.run(request.operation, request.given, tool=tool.name))


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Those that say something; None for one that is too long, the rest of which is passed over."""
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            while not line.endswith(b"\n") and (line := stream.readline(_SKIPPED)):
                pass
            yield None
        elif line.strip():
            yield line


def _read(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise ContentTooLarge(f"The line has over {LONGEST_LINE:,} bytes.", advice="Split what it stores.")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        told = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidInput(f"Not JSON: {told}.", advice="Give one object a line.") from error
    if not isinstance(value, dict):
        raise InvalidInput("The line is no object.", advice='Give {"action": ..., ...}.')
    return value


def _failure(error: MindholdError) -> dict[str, Any]:
    told = {"code": error.code, "error": error.message, "advice": error.advice}
    return {"status": "ERROR", **{name: neutral(value) for name, value in told.items()}}

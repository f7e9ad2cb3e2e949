"""What stands before a piece of a transcript, of what the piece needs to know: calls that it has the results of, and
entries that it repeats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from mindhold.ports.transcripts import Role, Step
from mindhold.providers.transcripts.entries import entries_in, string
from mindhold.providers.transcripts.lines import LONGEST_LINE
from mindhold.providers.transcripts.steps import Place, steps_in

LOOK_BACK, NEAR = 64 << 20, 1 << 20
_BLOCK = 1 << 20
_NAMED = re.compile(rb'"(?:uuid|id)"\s*:\s*"([^"\\]{1,200})"')


class Earlier:
    """Finds it."""

    def __init__(self, uuids: set[str], calls: set[str]) -> None:
        self.repeated: set[str] = set()
        self._tools: dict[str, str] = {}
        self._uuids = uuids
        self._calls = calls
        self._sought = {one.encode("utf-8", "surrogatepass") for one in uuids | calls}

    def look(self, stream: BinaryIO, *, before: int) -> None:
        """Calls mostly stand right before; what may be repeated can stand anywhere."""
        if not self._uuids:
            self._scan(stream, before - NEAR, before)
        if self._uuids or len(self._tools) < len(self._calls):
            self._scan(stream, before - LOOK_BACK, before)

    def named(self, step: Step) -> Step:
        """With the name of its tool, where that is known from before."""
        if step.role is not Role.RESULT or step.tool or step.call not in self._tools:
            return step
        return replace(step, tool=self._tools[step.call])

    def _scan(self, stream: BinaryIO, start: int, before: int) -> None:
        for block in _blocks(stream, max(0, start), before):
            if self._sought.isdisjoint(_NAMED.findall(block)):
                continue
            for raw in block.split(b"\n"):
                if not self._sought.isdisjoint(_NAMED.findall(raw)):
                    self._note(raw)

    def _note(self, raw: bytes) -> None:
        for entry in entries_in(raw)[0]:
            tools: dict[str, str] = {}
            uuid = string(entry.get("uuid"))
            made = steps_in(entry, Place(0, 0), tools)
            if made and uuid in self._uuids:
                self.repeated.add(uuid)
            self._tools |= {call: name for call, name in tools.items() if call in self._calls}


def _blocks(stream: BinaryIO, place: int, before: int) -> Iterator[bytes]:
    """Of whole lines, as far as those can be held."""
    stream.seek(place)
    if place > 0:  # in the middle of a line, most likely
        place += len(stream.readline(min(LONGEST_LINE, before - place)))
    while place < before and (block := stream.read(min(_BLOCK, before - place))):
        block += stream.readline(min(LONGEST_LINE, before - place - len(block)))
        place += len(block)
        yield block

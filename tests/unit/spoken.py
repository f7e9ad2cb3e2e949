"""Steps of a conversation, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from mindhold.ports.transcripts import Role, TranscriptStep


class Conversation:
    """Says and does things in order; every step stands on a line of its own."""

    def __init__(self) -> None:
        self.steps: list[TranscriptStep] = []
        self._lines = count(1)

    def _add(
        self,
        role: Role,
        text: str,
        *,
        tool: str = "",
        call: str = "",
        failed: bool = False,
        aside: bool = False,
    ) -> Conversation:
        line = next(self._lines)
        self.steps.append(
            TranscriptStep(role, text, line, line * 100, tool=tool, call=call, failed=failed, aside=aside)
        )
        return self

    def user(self, text: str) -> Conversation:
        return self._add(Role.USER, text)

    def claude(self, text: str, *, aside: bool = False) -> Conversation:
        return self._add(Role.CLAUDE, text, aside=aside)

    def tool(
        self, name: str, asked: str, answer: str = "", *, failed: bool = False, aside: bool = False
    ) -> Conversation:
        call = f"call-{len(self.steps)}"
        self._add(Role.TOOL, asked, tool=name, call=call, aside=aside)
        return self._add(Role.RESULT, answer, tool=name, call=call, failed=failed, aside=aside)

    def bash(
        self, command: str, answer: str = "", *, failed: bool = False, aside: bool = False
    ) -> Conversation:
        return self.tool("Bash", command, answer, failed=failed, aside=aside)

    def refused(self, name: str, asked: str, said: str) -> Conversation:
        """A call that the person declines with these words, which come with the result."""
        answer = f"The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n{said}"
        self.tool(name, asked, answer)
        self.steps.append(
            replace(self.steps[-1], role=Role.USER, text=said, tool="", call="", objecting=True)
        )
        return self

    def edit(self, path: str) -> Conversation:
        return self.tool("Edit", path, f"The file {path} has been updated successfully.")


def user(text: str) -> Sequence[TranscriptStep]:
    """A conversation of one turn."""
    return Conversation().user(text).steps


def claude(text: str) -> Sequence[TranscriptStep]:
    """A question, and what was answered at last."""
    return Conversation().user("?").claude(text).steps

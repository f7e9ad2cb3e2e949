"""Claude Code's folder as it fills with conversations, and how its index is looked into, for tests of history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from front_door import run
from talks import Line, write

from mindhold.app.application import App
from mindhold.history.index import INDEX_HISTORY, IndexHistoryResult
from mindhold.ports.history import IndexedConversation, Passage

SHOP = "/home/me/code/shop"


@dataclass(frozen=True)
class Shelf:
    """Where the transcripts lie."""

    folder: Path

    def file(self, session: str, cwd: str = SHOP) -> Path:
        name = "".join(char if char.isalnum() else "-" for char in cwd)
        return self.folder / "projects" / name / f"{session}.jsonl"

    def talk(self, session: str, *lines: Line, cwd: str = SHOP) -> Path:
        """One conversation, with entries of its own."""
        return write(self.file(session, cwd), *self.entries(session, *lines, cwd=cwd))

    def entries(self, session: str, *lines: Line, cwd: str = SHOP, start: int = 0) -> list[Line]:
        return [
            {"uuid": f"{session}-{number}"} | line | {"sessionId": session, "cwd": cwd}
            for number, line in enumerate(lines, start)
        ]

    def note(self, session: str, text: str, cwd: str = SHOP) -> Path:
        """What Claude Code writes beside it."""
        note = self.file(session, cwd).with_suffix("") / "session-memory" / "summary.md"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(text, encoding="utf-8")
        return note


async def index(app: App, **fields: Any) -> IndexHistoryResult:
    """In this process unless said otherwise."""
    return await run(app, INDEX_HISTORY, **{"workers": 0, **fields})


def known(app: App) -> dict[str, IndexedConversation]:
    """What the index has, by session; what is left out is absent."""
    return {one.session_id: one for one in app.engine.history.conversations() if not one.silent}


def passages(app: App, session: str) -> list[Passage]:
    """Those of a conversation, without the head."""
    row = known(app)[session].row
    return [one for _, one in app.engine.history.passages_of(row) if not one.head]


def head(app: App, session: str) -> Passage:
    [found] = [one for _, one in app.engine.history.passages_of(known(app)[session].row) if one.head]
    return found


def told(app: App, session: str) -> str:
    """All that the index says of a conversation."""
    rows = app.engine.history.passages_of(known(app)[session].row)
    return "\n".join(one.text for _, passage in rows for one in passage.utterances)


def everything(app: App) -> str:
    """All that the index says at all."""
    return "\n".join(told(app, session) for session in known(app))

"""Past conversations in the index, without files that they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mindhold.app.application import App
from mindhold.history.ranking import SessionCandidate
from mindhold.model.lexemes import lexemes
from mindhold.ports.history import IndexedConversation, IndexedStep, Passage, PassageMatch
from mindhold.ports.transcripts import Role

BEGIN = datetime(2026, 3, 1, 9, tzinfo=UTC)


def passage(number: int, asked: str, told: str) -> Passage:
    """A prompt, what was run, and the answer, on lines of their own."""
    line = 1 + 3 * number
    said = (
        IndexedStep(Role.USER, line, asked, BEGIN + timedelta(minutes=number)),
        IndexedStep(Role.TOOL, line + 1, "make test", tool="Bash"),
        IndexedStep(Role.CLAUDE, line + 2, told, BEGIN + timedelta(minutes=number, seconds=30)),
    )
    return Passage(said, " ".join(lexemes(f"{asked} {told}")))


def talked(app: App, session: str, turns: Sequence[tuple[str, str]], *, days: int = 0) -> SessionCandidate:
    """Index it; the candidate names its first passage as the one that matches."""
    about = IndexedConversation(
        session,
        "claude",
        Path(f"/talks/{session}.jsonl"),
        project="/srv/shop",
        ended=BEGIN + timedelta(days=days),
    )
    kept = app.engine.history.put(about, [passage(at, *turn) for at, turn in enumerate(turns)], anew=True)
    rows = [row for row, _ in app.engine.history.passages_of(kept.row)]
    return SessionCandidate(kept, [PassageMatch(rows[0], kept.row, 1.0)], 1.0)


def matching(app: App, candidate: SessionCandidate, *places: int, score: float = 1.0) -> SessionCandidate:
    """The same, with other passages that match."""
    rows = [row for row, _ in app.engine.history.passages_of(candidate.conversation.row)]
    matches = [PassageMatch(rows[place], candidate.conversation.row, score) for place in places]
    return replace(candidate, matches=matches, score=score)

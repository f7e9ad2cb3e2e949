"""How history stands: what is indexed, what isn't yet, what is kept, and what will vanish."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mindhold.engine.core import Engine
from mindhold.engine.history.apart import apart
from mindhold.engine.history.archive_names import archive_name
from mindhold.engine.history.archive_report import Trouble, last_trouble
from mindhold.engine.history.forgotten import DRAWER, MOST, PART_OF
from mindhold.engine.history.indexing import rules_of
from mindhold.engine.history.preparing import is_empty
from mindhold.engine.history.recovering import is_excluded
from mindhold.model.errors import StoreError
from mindhold.ports.history import Archived, Conversation, Stock
from mindhold.ports.transcripts import ConversationFile

KEPT_DAYS = 30  # by Claude Code, unless its settings say otherwise
SOON = timedelta(days=7)
COPIED = 0.9  # of a transcript: its last lines follow with the next look
LONGEST_SETTINGS = 1 << 20


@dataclass(frozen=True, slots=True)
class Vanishing:
    """A conversation that its program will delete, and of which there is no copy."""

    conversation: Conversation
    when: datetime


@dataclass(frozen=True, slots=True)
class HistoryState:
    """`conversations` are sessions; `gone` are those whose file isn't there any more; `left_out` are never indexed.
    `excluded` are sessions that are left out by now, and of which there are copies."""

    conversations: int
    subagents: int
    gone: int
    left_out: int
    forgotten: int
    stock: Stock
    unread_files: int
    unread_bytes: int
    copies: int
    copied_bytes: int
    archive_bytes: int
    vanishing: tuple[Vanishing, ...]
    kept_days: int
    rung: str
    latest: datetime | None
    doubt: str = ""  # why an RLM server that is configured can't be started
    excluded: tuple[str, ...] = ()
    trouble: Trouble | None = None  # that the archive had


async def history_state(engine: Engine) -> HistoryState:
    """Looks at folders, and reads no transcript."""
    notes = await engine.store.entries(DRAWER, now=engine.clock(), limit=MOST)
    forgotten = {note.key: PART_OF in note.value for note in notes}
    files = await apart(lambda _check: engine.transcripts.files())
    state = await asyncio.to_thread(_state, engine, files, forgotten)
    return state if state.trouble else replace(state, trouble=await last_trouble(engine))


def _state(engine: Engine, files: Sequence[ConversationFile], forgotten: Mapping[str, bool]) -> HistoryState:
    known = engine.history.conversations()
    told = [one for one in known if not one.silent]
    copies, unreadable = _copies(engine)
    unread = _unread(files, known, forgotten, subagents=engine.policy.history.subagents)
    days = kept_days(engine.transcripts.roots())
    doubt = engine.rlm.doubt() if engine.rlm is not None else ""
    return HistoryState(
        conversations=sum(not one.part_of for one in told),
        subagents=sum(bool(one.part_of) for one in told),
        gone=sum(one.gone for one in told),
        left_out=sum(one.silent and not is_empty(one) and one.belongs_to not in forgotten for one in known),
        forgotten=sum(not part for part in forgotten.values()),
        stock=engine.history.stock(),
        unread_files=len(unread),
        unread_bytes=sum(unread),
        copies=len(copies),
        copied_bytes=sum(copy.size for copy in copies),
        archive_bytes=sum(copy.on_disk for copy in copies),
        vanishing=tuple(_vanishing(told, files, copies, days, now=engine.clock())),
        kept_days=days,
        rung=_rung(engine, doubt),
        latest=max((one.ended for one in told if one.ended), default=None),
        doubt=doubt,
        excluded=_excluded(engine, copies),
        trouble=unreadable,
    )


def _unread(
    files: Sequence[ConversationFile],
    known: Sequence[Conversation],
    forgotten: Collection[str],
    *,
    subagents: bool,
) -> list[int]:
    """The bytes of each file that the index hasn't."""
    before = {one.file: one for one in known}
    left: list[int] = []
    for file in files:
        if file.part_of in forgotten or file.path.stem in forgotten or (file.part_of and not subagents):
            continue
        one = before.get(file.path)
        if one is not None and one.silent:
            continue
        if one is None or one.size != file.size:
            left.append(file.size - one.size if one is not None and one.size < file.size else file.size)
    return left


def _vanishing(
    known: Sequence[Conversation],
    files: Sequence[ConversationFile],
    copies: Sequence[Archived],
    days: int,
    *,
    now: datetime,
) -> list[Vanishing]:
    """Claude Code's own that the archive hasn't, the one that goes next first: by what the disk says, as Claude Code does, for
    the index doesn't know yet when a file that it read a part of was written."""
    written = {file.path: file.modified for file in files}
    copied = {copy.name: copy.size for copy in copies}
    found: list[Vanishing] = []
    for one in known:
        if one.source != "claude" or one.part_of or one.file not in written:
            continue
        if copied.get(archive_name(one), 0) >= COPIED * one.size:
            continue
        when = datetime.fromtimestamp(written[one.file] / 1e9, UTC) + timedelta(days=days)
        if when - now <= SOON:
            found.append(Vanishing(one, when))
    return sorted(found, key=lambda one: one.when)


def _copies(engine: Engine) -> tuple[list[Archived], Trouble | None]:
    try:
        return engine.archive.all(), None
    except StoreError as error:
        return [], Trouble(engine.clock(), (error.message,))


def _excluded(engine: Engine, copies: Sequence[Archived]) -> tuple[str, ...]:
    rules = rules_of(engine)
    found = [copy.about.belongs_to for copy in copies if copy.about and is_excluded(copy, rules)]
    return tuple(dict.fromkeys(found))


def kept_days(roots: Sequence[Path]) -> int:
    """For how long Claude Code keeps transcripts, as its settings say."""
    for root in roots:
        file = root.parent / "settings.json"
        try:
            if file.stat().st_size > LONGEST_SETTINGS:
                continue
            value = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        days = value.get("cleanupPeriodDays") if isinstance(value, dict) else None
        if isinstance(days, int) and not isinstance(days, bool) and 0 <= days <= 100_000:
            return days
    return KEPT_DAYS


def _rung(engine: Engine, doubt: str) -> str:
    """Who reads before `memory_recall` answers."""
    if not engine.policy.history.by_model:
        return "index"
    if engine.rlm is not None and not doubt:
        return "rlm"
    return engine.llm.name if engine.llm is not None else "index"

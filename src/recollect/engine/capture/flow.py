"""One capture: from where a conversation was read to, as far as it goes now.

What was found in a piece is put down as pending, with the cursor that follows it, before anything of it is stored; then it
is stored, then the cursor is moved, then the note goes. Killed anywhere and run again, nothing is lost and nothing is
there twice. Of two at once for one conversation one waits for the other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from recollect.engine.capture.alone import alone
from recollect.engine.capture.bounds import is_excluded, is_own_call, redacted, unskipped
from recollect.engine.capture.item import Item
from recollect.engine.capture.keep import Kept, keep
from recollect.engine.capture.picking import Picked, Picker
from recollect.engine.capture.place import scope_of_folder
from recollect.engine.capture.state import record_capture
from recollect.engine.conversations import called
from recollect.engine.core import Engine
from recollect.engine.keys import fingerprint
from recollect.model.entry import Entry
from recollect.model.errors import NotFound, Refused
from recollect.model.memory import Kind
from recollect.ports.transcripts import Cursor, Followed, Role, Step

CURSOR = "capture:"  # before a conversation's key
PENDING = "capture:pending"  # the drawer with what was found and isn't all stored
PIECE = 4 << 20  # bytes that are read at once
STOP, SUBAGENT_STOP, SESSION_END = "Stop", "SubagentStop", "SessionEnd"
LEAST_LINES = {STOP: 3, SUBAGENT_STOP: 3}  # with something in them; 1 for other events
KEPT = timedelta(days=7)  # a pending note: after that the file is read again
_COMPARED = 500  # characters of a message


@dataclass(frozen=True, slots=True)
class Heard:
    """What an event says of a conversation; `folder` is where it is held, `subagent` whose file it is if not the main one."""

    conversation: str
    file: str
    event: str
    folder: str
    last_message: str = ""
    subagent: str = ""


class Outcome(StrEnum):
    """What came of it."""

    CAPTURED = "captured"
    NOTHING = "nothing"  # new since the last time
    FEW = "few"  # lines: they wait for the next event
    LAGS = "lags"  # the file hasn't what was said last: to be asked again in a moment, at last without `last_message`
    DISABLED = "disabled"
    EXCLUDED = "excluded"
    OWN_CALL = "own_call"  # of ours to a model
    GONE = "gone"  # the file or the folder
    BUSY = "busy"  # another process is at it


@dataclass(frozen=True, slots=True)
class Captured:
    """`found` were picked out, of which `stored` are new; `lines` of the file had something in them."""

    outcome: Outcome
    scope: str | None = None
    lines: int = 0
    found: int = 0
    stored: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    duplicates: int = 0
    captures: int = 0  # of the project, this one among them
    rung: str = ""
    notice: str = ""

    @property
    def lags(self) -> bool:
        """Whether to look again in a moment."""
        return self.outcome is Outcome.LAGS


async def capture(engine: Engine, heard: Heard, *, agent: str) -> Captured:
    """Raises InvalidInput, and the store's errors; asked again after them, it goes on where it was."""
    policy = engine.policy.capture
    if not policy.enabled or (heard.subagent and not policy.subagents):
        return Captured(Outcome.DISABLED)
    if is_excluded(heard.folder, policy.exclude):
        return Captured(Outcome.EXCLUDED)
    heard = replace(heard, conversation=called(engine, heard.conversation))
    try:
        scope = await scope_of_folder(engine, heard.folder, create=False)
        async with alone(engine, CURSOR + _key(heard)) as mine:
            if not mine:
                return Captured(Outcome.BUSY, scope=scope)
            return await _Capture(engine, heard, scope, agent=agent).run()
    except NotFound as error:
        return Captured(Outcome.GONE, notice=str(error))
    except Refused as error:
        return Captured(Outcome.EXCLUDED, notice=str(error))


@dataclass(frozen=True, slots=True)
class _Noted:
    """What is kept of a conversation between two captures."""

    cursor: Cursor = field(default_factory=Cursor)
    carried: Mapping[str, Any] = field(default_factory=dict)
    count: int = 0  # captures
    begun: bool = False  # somebody has spoken
    own: bool = False
    skipping: bool = False
    last: str = ""  # what Claude said last, as a fingerprint

    @classmethod
    def of(cls, raw: str | None) -> _Noted:
        value = json.loads(raw) if raw else {}
        place = {name: value.pop(name) for name in ("offset", "line", "mark") if name in value}
        return cls(Cursor(**place), **value)

    def as_json(self) -> str:
        value = asdict(self)
        return json.dumps({**value.pop("cursor"), **value}, ensure_ascii=False, separators=(",", ":"))


class _Capture:
    """One run, with the conversation in hand."""

    def __init__(self, engine: Engine, heard: Heard, scope: str | None, *, agent: str) -> None:
        self._engine = engine
        self._heard = heard
        self._scope = scope
        self._agent = agent
        self._key = _key(heard)
        self._picker = Picker(engine, heard.folder, agent)
        self._raw: str | None = None  # the cursor's value, as it is in the store
        self._done = Captured(Outcome.NOTHING, scope=scope)

    async def run(self) -> Captured:
        self._raw = await self._engine.store.cursor(CURSOR + self._key)
        await self._finish_pending()
        noted = _Noted.of(self._raw)
        if noted.own:
            return Captured(Outcome.OWN_CALL, scope=self._scope)
        outcome = await self._read(noted)
        took = self._done.lines > 0 or self._done.found > 0
        if took and self._scope is not None and outcome is not Outcome.OWN_CALL:
            await self._record(self._scope)
        if took and outcome is Outcome.NOTHING:
            outcome = Outcome.CAPTURED
        rung = self._picker.rung if took else ""
        return replace(self._done, outcome=outcome, scope=self._scope, rung=rung, notice=self._picker.notice)

    async def _read(self, noted: _Noted) -> Outcome:
        """Piece by piece, until nothing is left that can be taken now."""
        while True:
            piece = await asyncio.to_thread(
                self._engine.transcripts.follow, Path(self._heard.file), noted.cursor, most_bytes=PIECE
            )
            if piece is None:
                return Outcome.GONE
            if piece.restarted:
                noted = _Noted(count=noted.count)
            if not piece.more and (left := self._left_for_later(piece, noted)) is not None:
                return left
            next_ = await self._take(piece, noted)
            if next_ is None:
                return Outcome.BUSY
            if next_.own:
                return Outcome.OWN_CALL
            if not piece.more:
                return Outcome.NOTHING
            noted = next_

    def _left_for_later(self, piece: Followed, noted: _Noted) -> Outcome | None:
        """Why the last piece isn't taken yet; None if it is."""
        if self._lags(piece.steps, noted):
            return Outcome.LAGS
        if not piece.lines:
            return Outcome.NOTHING
        few = self._done.lines + piece.lines < LEAST_LINES.get(self._heard.event, 1)
        return Outcome.FEW if few else None

    def _lags(self, steps: Sequence[Step], noted: _Noted) -> bool:
        """Whether what was said last isn't in the file yet, which is written behind."""
        said = _plain(self._heard.last_message)
        if not said or self._heard.event not in LEAST_LINES or noted.last == _print(said):
            return False
        since = max((place for place, step in enumerate(steps) if step.role is Role.USER), default=-1)
        told = [_plain(step.text) for step in steps[since + 1 :] if step.role is Role.CLAUDE]
        return not any(one.startswith(said) or said.startswith(one) for one in told if one)

    async def _take(self, piece: Followed, noted: _Noted) -> _Noted | None:
        """Everything of a piece, in the order that makes it safe; None if another process did it meanwhile."""
        own = False if noted.begun else is_own_call(piece.steps)
        last = next((step.text for step in reversed(piece.steps) if step.role is Role.CLAUDE), None)
        steps, skipping = unskipped(piece.steps, skipping=noted.skipping)
        next_ = replace(
            noted,
            cursor=piece.cursor,
            count=noted.count + 1,
            begun=noted.begun or own is not None,
            own=bool(own),
            skipping=skipping,
            last=noted.last if last is None else _print(_plain(last)),
        )
        picked = Picked((), noted.carried)
        if not own:
            if not self._engine.policy.capture.subagents:
                steps = [step for step in steps if not step.aside]
            steps = await asyncio.to_thread(redacted, steps)
            picked = await self._picker.pick(steps, noted.carried, scope=self._scope)
            next_ = replace(next_, carried=picked.carried)
        self._done = replace(self._done, lines=self._done.lines + piece.lines)
        if picked.items:
            self._scope = self._scope or await scope_of_folder(self._engine, self._heard.folder, create=True)
            await self._put_pending(picked.items, next_)
        return next_ if await self._store(picked, next_.as_json()) else None

    async def _store(self, picked: Picked, next_: str) -> bool:
        """Whether the cursor is ours to move."""
        if picked.items and self._scope is not None:
            kept = await self._keep(picked.items, scope=self._scope)
            await self._picker.note(picked, kept.ids)
        moved = await self._engine.store.swap_cursor(CURSOR + self._key, old=self._raw, new=next_)
        if moved:
            self._raw = next_
        if picked.items:
            await self._engine.store.drop_entry(PENDING, self._key)
        return moved

    async def _keep(self, items: Sequence[Item], *, scope: str) -> Kept:
        kept = await keep(
            self._engine,
            items,
            conversation=self._heard.conversation,
            file=self._heard.file,
            scope=scope,
            agent=self._agent,
        )
        done = self._done
        self._done = replace(
            done,
            found=done.found + len(items),
            stored=(*done.stored, *kept.stored),
            superseded=(*done.superseded, *kept.superseded),
            duplicates=done.duplicates + kept.duplicates,
        )
        return kept

    async def _put_pending(self, items: Sequence[Item], next_: _Noted) -> None:
        now = self._engine.clock()
        value = {
            "old": self._raw,
            "next": next_.as_json(),
            "scope": self._scope,
            "items": [{**asdict(item), "kind": item.kind.value} for item in items],
        }
        await self._engine.store.put_entry(Entry(PENDING, self._key, value, now, now + KEPT))

    async def _finish_pending(self) -> None:
        """What a run that was killed had found. One whose cursor has moved on is done but for the note."""
        entry = await self._engine.store.entry(PENDING, self._key, now=self._engine.clock())
        if entry is None:
            return
        if entry.value["old"] == self._raw:
            self._scope = self._scope or entry.value["scope"]
            items = tuple(_item(value) for value in entry.value["items"])
            await self._store(Picked(items, {}), entry.value["next"])
        else:
            await self._engine.store.drop_entry(PENDING, self._key)

    async def _record(self, scope: str) -> None:
        state = await record_capture(
            self._engine,
            scope,
            conversation=self._heard.conversation,
            event=self._heard.event,
            stored=len(self._done.stored),
            rung=self._picker.rung,
            problem=self._picker.notice,
        )
        self._done = replace(self._done, captures=state.captures)


def _key(heard: Heard) -> str:
    """A conversation's file, wherever it lies."""
    return fingerprint(f"{heard.conversation}\n{heard.subagent}\n{Path(heard.file).name}")[:32]


def _item(value: Mapping[str, Any]) -> Item:
    return Item(**{**value, "kind": Kind(value["kind"]), "tags": tuple(value["tags"])})


def _plain(text: str) -> str:
    return " ".join(text.split())[:_COMPARED]


def _print(text: str) -> str:
    return fingerprint(text)[:16]

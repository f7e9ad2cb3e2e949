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
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from mindhold.bare.said import BEFORE, begins, mark_of
from mindhold.engine.capture.alone import alone
from mindhold.engine.capture.bounds import is_excluded, is_own_call, redacted, unskipped
from mindhold.engine.capture.item import Item
from mindhold.engine.capture.keep import Kept, keep
from mindhold.engine.capture.pending import PENDING, Pending, pending_of, put_pending
from mindhold.engine.capture.picking import Picked, Picker
from mindhold.engine.capture.place import scope_of_folder
from mindhold.engine.capture.state import record_capture, record_problem
from mindhold.engine.conversations import called
from mindhold.engine.core import Engine
from mindhold.engine.history.forgotten import is_forgotten
from mindhold.engine.keys import fingerprint
from mindhold.model.errors import MindholdError, NotFound, Refused, StoreError
from mindhold.ports.transcripts import About, Cursor, Followed, Role, Step

CURSOR = "capture:"  # before a conversation's key
PIECE = 4 << 20  # bytes that are read at once
LEAST_LINES = {"Stop": 3, "SubagentStop": 3}  # with something in them; 1 for other events
SUBAGENTS = "agent-"  # how a sub-agent's file is called
FORGOTTEN = "The conversation was forgotten: nothing of it is kept until `mindhold history forget --lift`."
UNREADABLE = "What was noted of the conversation can't be read here, so that it was read anew."


@dataclass(frozen=True, slots=True)
class Heard:
    """What an event says of a conversation; `folder` is where it is held, `subagent` whose file it is if not the main one.

    `last_message` is what was said last, or what that is known by (mindhold.bare.said).
    """

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
    FORGOTTEN = "forgotten"  # by somebody who wants none of it back
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
    scope: str | None = None
    try:
        scope = await scope_of_folder(engine, heard.folder, create=False)
        async with alone(engine, CURSOR + cursor_key(heard)) as mine:
            if not mine:
                return Captured(Outcome.BUSY, scope=scope)
            if await _was_forgotten(engine, heard):
                return Captured(Outcome.FORGOTTEN, scope=scope, notice=FORGOTTEN)
            try:
                return await _Capture(engine, heard, scope, agent=agent).run()
            except _Forgotten:  # meanwhile, or it is another's file by its name only
                await engine.store.drop_entry(PENDING, cursor_key(heard))
                await engine.store.set_cursor(CURSOR + cursor_key(heard), None)
                return Captured(Outcome.FORGOTTEN, scope=scope, notice=FORGOTTEN)
    except NotFound as error:
        return Captured(Outcome.GONE, notice=str(error))
    except Refused as error:
        return Captured(Outcome.EXCLUDED, notice=str(error))
    except StoreError:
        raise
    except MindholdError as error:
        if scope is not None:
            await record_problem(engine, scope, str(error))
        raise


@dataclass(frozen=True, slots=True)
class _Noted:
    """What is kept of a conversation between two captures."""

    cursor: Cursor = field(default_factory=Cursor)
    carried: Mapping[str, Any] = field(default_factory=dict)
    begun: bool = False  # somebody has spoken
    own: bool = False
    skipping: bool = False
    last: str = ""  # what Claude said last, as it is known by

    @classmethod
    def of(cls, raw: str | None) -> _Noted | None:
        """As far as it is understood: another version may have written it. None where that is too little."""
        if raw is None:
            return cls()
        try:
            value = json.loads(raw)
        except ValueError:
            return None
        if not isinstance(value, dict):
            return None
        place = [value.get(name) for name in ("offset", "line")]
        if not all(type(one) is int and one >= 0 for one in place) or type(value.get("mark")) is not str:
            return None
        known: dict[str, Any] = {
            name: value[name]
            for name, kind in _NOTED.items()
            if name in value and isinstance(value[name], kind)
        }
        return cls(Cursor(value["offset"], value["line"], value["mark"]), **known)

    def as_json(self) -> str:
        value = asdict(self)
        return json.dumps({**value.pop("cursor"), **value}, ensure_ascii=False, separators=(",", ":"))


_NOTED: dict[str, type] = {"carried": dict, "begun": bool, "own": bool, "skipping": bool, "last": str}


class _Forgotten(Exception):
    """Somebody forgot the conversation that is being read."""


class _Capture:
    """One run, with the conversation in hand."""

    def __init__(self, engine: Engine, heard: Heard, scope: str | None, *, agent: str) -> None:
        self._engine = engine
        self._heard = heard
        self._scope = scope
        self._agent = agent
        self._key = cursor_key(heard)
        self._picker = Picker(engine, heard.folder, agent)
        self._raw: str | None = None  # the cursor's value, as it is in the store
        self._problem = ""
        self._done = Captured(Outcome.NOTHING, scope=scope)

    async def run(self) -> Captured:
        self._raw = await self._engine.store.cursor(CURSOR + self._key)
        if not await self._finish_pending():
            return replace(self._done, outcome=Outcome.BUSY)
        noted = _Noted.of(self._raw)
        if noted is None:
            noted, self._problem = _Noted(), UNREADABLE
        if noted.own:
            return Captured(Outcome.OWN_CALL, scope=self._scope)
        outcome = await self._read(noted)
        took = self._done.lines > 0 or self._done.found > 0
        if took and self._scope is not None and outcome is not Outcome.OWN_CALL:
            await self._record(self._scope)
        elif self._problem and self._scope is not None:
            await record_problem(self._engine, self._scope, self._problem)
        if took and outcome is Outcome.NOTHING:
            outcome = Outcome.CAPTURED
        rung = self._picker.rung if took else ""
        return replace(self._done, outcome=outcome, scope=self._scope, rung=rung, notice=self._notice)

    @property
    def _notice(self) -> str:
        return self._problem or self._picker.notice

    async def _read(self, noted: _Noted) -> Outcome:
        """Piece by piece, until nothing is left that can be taken now."""
        while True:
            piece = await asyncio.to_thread(
                self._engine.transcripts.follow, Path(self._heard.file), noted.cursor, most_bytes=PIECE
            )
            if piece is None:
                return Outcome.GONE
            await self._check_forgotten(piece.about)
            if piece.restarted:
                noted = _Noted()
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
        said = self._heard.last_message
        said = said if said.startswith(BEFORE) else mark_of(said)
        if not said or self._heard.event not in LEAST_LINES or noted.last == said:
            return False
        since = max((place for place, step in enumerate(steps) if step.role is Role.USER), default=-1)
        told = [step.text for step in steps[since + 1 :] if step.role is Role.CLAUDE]
        # A message may stand on several lines.
        return not any(begins("".join(told[place:]), said) for place in range(len(told)))

    async def _take(self, piece: Followed, noted: _Noted) -> _Noted | None:
        """Everything of a piece, in the order that makes it safe; None if another process did it meanwhile."""
        own = False if noted.begun else is_own_call(piece.steps)
        last = next((step.text for step in reversed(piece.steps) if step.role is Role.CLAUDE), None)
        steps, skipping = unskipped(piece.steps, skipping=noted.skipping, subagent=self._is_subagents())
        next_ = replace(
            noted,
            cursor=piece.cursor,
            begun=noted.begun or own is not None,
            own=bool(own),
            skipping=skipping,
            last=noted.last if last is None else mark_of(last),
        )
        picked = Picked((), noted.carried)
        if not own:
            if not self._engine.policy.capture.subagents:
                steps = [step for step in steps if not step.aside]
            steps = await asyncio.to_thread(redacted, steps)
            picked = await self._picker.pick(steps, noted.carried, scope=self._scope)
            picked = replace(picked, items=_dated(picked.items, piece.steps))
            next_ = replace(next_, carried=picked.carried)
        self._done = replace(self._done, lines=self._done.lines + piece.lines)
        if picked.items:
            await self._check_forgotten(piece.about)
            self._scope = self._scope or await scope_of_folder(self._engine, self._heard.folder, create=True)
            pending = Pending(self._raw, next_.as_json(), self._scope, picked.items)
            await put_pending(self._engine, self._key, pending)
        return next_ if await self._store(picked, next_.as_json()) else None

    async def _store(self, picked: Picked, next_: str) -> bool:
        """Whether the cursor is ours to move; if not, the note is another's as well."""
        if picked.items and self._scope is not None:
            await self._check_forgotten()
            kept = await self._keep(picked.items, scope=self._scope)
            await self._picker.note(picked, kept.ids)
        moved = await self._engine.store.swap_cursor(CURSOR + self._key, old=self._raw, new=next_)
        if not moved:
            return False
        self._raw = next_
        if picked.items:
            await self._engine.store.drop_entry(PENDING, self._key)
        return True

    async def _check_forgotten(self, about: About | None = None) -> None:
        """Picking takes long, with a model minutes: who forgets the conversation meanwhile wants none of it."""
        if await _was_forgotten(self._engine, self._heard, about):
            raise _Forgotten

    def _is_subagents(self) -> bool:
        return bool(self._heard.subagent) or Path(self._heard.file).name.startswith(SUBAGENTS)

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

    async def _finish_pending(self) -> bool:
        """What a run that was killed had found. One whose cursor has moved on is done but for the note.

        False where another process is at it.
        """
        entry = await self._engine.store.entry(PENDING, self._key, now=self._engine.clock())
        if entry is None:
            return True
        try:
            pending = pending_of(entry.value)
        except ValueError:  # the cursor hasn't moved: all of it is found again
            self._problem = UNREADABLE
        else:
            if pending.old == self._raw:
                self._scope = self._scope or await self._scope_of(pending)
                return await self._store(Picked(pending.items, {}), pending.next_)
        await self._engine.store.drop_entry(PENDING, self._key)
        return True

    async def _scope_of(self, pending: Pending) -> str | None:
        """The one that was noted, if it is still there, else that of the folder."""
        if pending.scope in {scope.name for scope in await self._engine.store.scopes()}:
            return pending.scope
        return await scope_of_folder(self._engine, self._heard.folder, create=True)

    async def _record(self, scope: str) -> None:
        state = await record_capture(
            self._engine,
            scope,
            conversation=self._heard.conversation,
            event=self._heard.event,
            stored=len(self._done.stored),
            rung=self._picker.rung,
            problem=self._notice,
        )
        self._done = replace(self._done, captures=state.captures)


async def _was_forgotten(engine: Engine, heard: Heard, about: About | None = None) -> bool:
    """The conversation, or the one whose sub-agent's file lies in its folder; or the one that the file itself names."""
    parts = Path(heard.file).parts
    above = [parts[place - 1] for place, part in enumerate(parts) if part == "subagents" and place]
    named = (about.session_id, about.part_of) if about else ()
    for name in dict.fromkeys((heard.conversation, Path(heard.file).stem, *above, *named)):
        if name and await is_forgotten(engine, name):
            return True
    return False


def cursor_key(heard: Heard) -> str:
    """A conversation's file, wherever it lies."""
    return fingerprint(f"{heard.conversation}\n{heard.subagent}\n{Path(heard.file).name}")[:32]


def _dated(items: Sequence[Item], steps: Sequence[Step]) -> tuple[Item, ...]:
    """With when each was said; what stands before these steps was said no later than the first of them."""
    moments: dict[int, datetime] = {}
    for step in steps:
        if step.timestamp is not None:
            moments.setdefault(step.line, step.timestamp)
    first = min(moments.values(), default=None)
    return tuple(replace(item, said=moments.get(item.line, first)) for item in items)

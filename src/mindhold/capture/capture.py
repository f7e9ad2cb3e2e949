"""One capture: reads a conversation from its cursor on, stores what it left, updates the project's documents."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import Field

from mindhold.access.secrets import fingerprint
from mindhold.capture.condensation import condensation_reason, condense
from mindhold.capture.conversation_text import is_excluded, is_own_call, redacted, without_skipped_turns
from mindhold.capture.documents import WrittenView, write_documents
from mindhold.capture.extraction import ExtractionResult, Extractor
from mindhold.capture.items import CapturedItem
from mindhold.capture.journal import PENDING, Pending, pending_of, put_pending
from mindhold.capture.project_folder import scope_of_folder
from mindhold.capture.status import record_capture, record_problem
from mindhold.capture.storage import StoredItems, store_items
from mindhold.conversations.sessions import clean_conversation_name
from mindhold.engine import Engine
from mindhold.history.index_guard import is_forgotten
from mindhold.hooks.already_shown import MARK_PREFIX, begins_with_mark, message_mark
from mindhold.locks import wait_for_claim
from mindhold.model.errors import InvalidInput, MindholdError, ModelAway, NotFound, Refused, StoreError
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.llm import FallbackModel, LanguageModel, Meter, RetryingModel, levels_of
from mindhold.ports.transcripts import Role, TranscriptCursor, TranscriptInfo, TranscriptRead, TranscriptStep


def with_deadline(model: LanguageModel, seconds: float) -> FallbackModel:
    """The same, and all its answers together within so many seconds. To be closed by whoever has the model itself."""
    until = time.monotonic() + seconds
    return FallbackModel([replace(rung, model=_bounded(rung.model, until)) for rung in levels_of(model)])


def _bounded(model: LanguageModel, until: float) -> LanguageModel:
    return _TryingInTime(model, until) if isinstance(model, RetryingModel) else _DeadlineModel(model, until)


class _DeadlineModel:
    def __init__(self, model: LanguageModel, until: float) -> None:
        self._model = model
        self._until = until

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Raises ModelError, also when there is no more time."""
        return await self._within(self._model.complete(prompt, system=system, most_tokens=most_tokens))

    async def _within(self, asking: Coroutine[Any, Any, str]) -> str:
        left = self._until - time.monotonic()
        late = ModelAway(
            f"{self.name} doesn't answer within the time that there is for a conversation.",
            advice="Raise capture.worker_seconds, or lower llm.wait_seconds.",
        )
        if left <= 0:
            asking.close()
            late.unasked = True
            raise late
        try:
            async with asyncio.timeout(left):
                return await asking
        except TimeoutError as error:
            late.lost = True
            raise late from error


class _TryingInTime(_DeadlineModel):
    _model: RetryingModel

    async def complete_metered(self, prompt: str, *, system: str, most_tokens: int, meter: Meter) -> str:
        """Raises ModelError, also when there is no more time."""
        asking = self._model.complete_metered(prompt, system=system, most_tokens=most_tokens, meter=meter)
        try:
            return await self._within(asking)
        except ModelAway as error:
            if error.lost:  # in the midst of an attempt, which the model can tell nobody of
                await meter.failed(error)
            raise


CURSOR = "capture:"  # before a conversation's key
PIECE = 4 << 20  # bytes that are read at once
LEAST_LINES = {"Stop": 3, "SubagentStop": 3}  # with something in them; 1 for other events
SUBAGENTS = "agent-"  # how a sub-agent's file is called
FORGOTTEN = "The conversation was forgotten: nothing of it is kept until `mindhold history forget --lift`."
UNREADABLE = "What was noted of the conversation can't be read here, so that it was read anew."


@dataclass(frozen=True, slots=True)
class CaptureEvent:
    """What an event says of a conversation; `folder` is where it is held, `subagent` whose file it is if not the main one.

    `last_message` is what was said last, or what that is known by (mindhold.hooks.already_shown).
    """

    conversation: str
    file: str
    event: str
    folder: str
    last_message: str = ""
    subagent: str = ""


class CaptureOutcome(StrEnum):
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
class CaptureReceipt:
    """`found` were picked out, of which `stored` are new; `lines` of the file had something in them."""

    outcome: CaptureOutcome
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
        return self.outcome is CaptureOutcome.LAGS


async def capture(engine: Engine, heard: CaptureEvent, *, agent: str) -> CaptureReceipt:
    """Raises InvalidInput, and the store's errors; asked again after them, it goes on where it was."""
    settings = engine.settings.capture
    if not settings.enabled or (heard.subagent and not settings.subagents):
        return CaptureReceipt(CaptureOutcome.DISABLED)
    if is_excluded(heard.folder, settings.excluded):
        return CaptureReceipt(CaptureOutcome.EXCLUDED)
    heard = replace(heard, conversation=clean_conversation_name(engine, heard.conversation))
    scope: str | None = None
    try:
        scope = await scope_of_folder(engine, heard.folder, create=False)
        async with wait_for_claim(engine, CURSOR + cursor_key(heard)) as mine:
            if not mine:
                return CaptureReceipt(CaptureOutcome.BUSY, scope=scope)
            if await _was_forgotten(engine, heard):
                return CaptureReceipt(CaptureOutcome.FORGOTTEN, scope=scope, notice=FORGOTTEN)
            try:
                return await _Capture(engine, heard, scope, agent=agent).run()
            except _Forgotten:  # meanwhile, or it is another's file by its name only
                await engine.store.drop_entry(PENDING, cursor_key(heard))
                await engine.store.set_cursor(CURSOR + cursor_key(heard), None)
                return CaptureReceipt(CaptureOutcome.FORGOTTEN, scope=scope, notice=FORGOTTEN)
    except NotFound as error:
        return CaptureReceipt(CaptureOutcome.GONE, notice=str(error))
    except Refused as error:
        return CaptureReceipt(CaptureOutcome.EXCLUDED, notice=str(error))
    except StoreError:
        raise
    except MindholdError as error:
        if scope is not None:
            await record_problem(engine, scope, str(error))
        raise


@dataclass(frozen=True, slots=True)
class _Noted:
    """What is kept of a conversation between two captures."""

    cursor: TranscriptCursor = field(default_factory=TranscriptCursor)
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
        return cls(TranscriptCursor(value["offset"], value["line"], value["mark"]), **known)

    def as_json(self) -> str:
        value = asdict(self)
        return json.dumps({**value.pop("cursor"), **value}, ensure_ascii=False, separators=(",", ":"))


_NOTED: dict[str, type] = {"carried": dict, "begun": bool, "own": bool, "skipping": bool, "last": str}


class _Forgotten(Exception):
    """Somebody forgot the conversation that is being read."""


class _Capture:
    """One run, with the conversation in hand."""

    def __init__(self, engine: Engine, heard: CaptureEvent, scope: str | None, *, agent: str) -> None:
        self._engine = engine
        self._heard = heard
        self._scope = scope
        self._agent = agent
        self._key = cursor_key(heard)
        self._picker = Extractor(engine, heard.folder, agent)
        self._raw: str | None = None  # the cursor's value, as it is in the store
        self._problem = ""
        self._done = CaptureReceipt(CaptureOutcome.NOTHING, scope=scope)

    async def run(self) -> CaptureReceipt:
        self._raw = await self._engine.store.cursor(CURSOR + self._key)
        if not await self._finish_pending():
            return replace(self._done, outcome=CaptureOutcome.BUSY)
        noted = _Noted.of(self._raw)
        if noted is None:
            noted, self._problem = _Noted(), UNREADABLE
        if noted.own:
            return CaptureReceipt(CaptureOutcome.OWN_CALL, scope=self._scope)
        outcome = await self._read(noted)
        took = self._done.lines > 0 or self._done.found > 0
        if took and self._scope is not None and outcome is not CaptureOutcome.OWN_CALL:
            await self._record(self._scope)
        elif self._problem and self._scope is not None:
            await record_problem(self._engine, self._scope, self._problem)
        if took and outcome is CaptureOutcome.NOTHING:
            outcome = CaptureOutcome.CAPTURED
        rung = self._picker.rung if took else ""
        return replace(self._done, outcome=outcome, scope=self._scope, rung=rung, notice=self._notice)

    @property
    def _notice(self) -> str:
        return self._problem or self._picker.notice

    async def _read(self, noted: _Noted) -> CaptureOutcome:
        """Piece by piece, until nothing is left that can be taken now."""
        while True:
            piece = await asyncio.to_thread(
                self._engine.transcripts.follow, Path(self._heard.file), noted.cursor, most_bytes=PIECE
            )
            if piece is None:
                return CaptureOutcome.GONE
            await self._check_forgotten(piece.about)
            if piece.restarted:
                noted = _Noted()
            if not piece.more and (left := self._left_for_later(piece, noted)) is not None:
                return left
            next_ = await self._take(piece, noted)
            if next_ is None:
                return CaptureOutcome.BUSY
            if next_.own:
                return CaptureOutcome.OWN_CALL
            if not piece.more:
                return CaptureOutcome.NOTHING
            noted = next_

    def _left_for_later(self, piece: TranscriptRead, noted: _Noted) -> CaptureOutcome | None:
        """Why the last piece isn't taken yet; None if it is."""
        if self._lags(piece.steps, noted):
            return CaptureOutcome.LAGS
        if not piece.lines:
            return CaptureOutcome.NOTHING
        few = self._done.lines + piece.lines < LEAST_LINES.get(self._heard.event, 1)
        return CaptureOutcome.FEW if few else None

    def _lags(self, steps: Sequence[TranscriptStep], noted: _Noted) -> bool:
        """Whether what was said last isn't in the file yet, which is written behind."""
        said = self._heard.last_message
        said = said if said.startswith(MARK_PREFIX) else message_mark(said)
        if not said or self._heard.event not in LEAST_LINES or noted.last == said:
            return False
        since = max((place for place, step in enumerate(steps) if step.role is Role.USER), default=-1)
        told = [step.text for step in steps[since + 1 :] if step.role is Role.CLAUDE]
        # A message may stand on several lines.
        return not any(begins_with_mark("".join(told[place:]), said) for place in range(len(told)))

    async def _take(self, piece: TranscriptRead, noted: _Noted) -> _Noted | None:
        """Everything of a piece, in the order that makes it safe; None if another process did it meanwhile."""
        own = False if noted.begun else is_own_call(piece.steps)
        last = next((step.text for step in reversed(piece.steps) if step.role is Role.CLAUDE), None)
        steps, skipping = without_skipped_turns(
            piece.steps, skipping=noted.skipping, subagent=self._is_subagents()
        )
        next_ = replace(
            noted,
            cursor=piece.cursor,
            begun=noted.begun or own is not None,
            own=bool(own),
            skipping=skipping,
            last=noted.last if last is None else message_mark(last),
        )
        picked = ExtractionResult((), noted.carried)
        if not own:
            if not self._engine.settings.capture.subagents:
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

    async def _store(self, picked: ExtractionResult, next_: str) -> bool:
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

    async def _check_forgotten(self, about: TranscriptInfo | None = None) -> None:
        """Picking takes long, with a model minutes: who forgets the conversation meanwhile wants none of it."""
        if await _was_forgotten(self._engine, self._heard, about):
            raise _Forgotten

    def _is_subagents(self) -> bool:
        return bool(self._heard.subagent) or Path(self._heard.file).name.startswith(SUBAGENTS)

    async def _keep(self, items: Sequence[CapturedItem], *, scope: str) -> StoredItems:
        kept = await store_items(
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
                return await self._store(ExtractionResult(pending.items, {}), pending.next_)
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


async def _was_forgotten(engine: Engine, heard: CaptureEvent, about: TranscriptInfo | None = None) -> bool:
    """The conversation, or the one whose sub-agent's file lies in its folder; or the one that the file itself names."""
    parts = Path(heard.file).parts
    above = [parts[place - 1] for place, part in enumerate(parts) if part == "subagents" and place]
    named = (about.session_id, about.part_of) if about else ()
    for name in dict.fromkeys((heard.conversation, Path(heard.file).stem, *above, *named)):
        if name and await is_forgotten(engine, name):
            return True
    return False


def cursor_key(heard: CaptureEvent) -> str:
    """A conversation's file, wherever it lies."""
    return fingerprint(f"{heard.conversation}\n{heard.subagent}\n{Path(heard.file).name}")[:32]


def _dated(items: Sequence[CapturedItem], steps: Sequence[TranscriptStep]) -> tuple[CapturedItem, ...]:
    """With when each was said; what stands before these steps was said no later than the first of them."""
    moments: dict[int, datetime] = {}
    for step in steps:
        if step.timestamp is not None:
            moments.setdefault(step.line, step.timestamp)
    first = min(moments.values(), default=None)
    return tuple(replace(item, said=moments.get(item.line, first)) for item in items)


MANUAL = "manual"
LONGEST = 1_000_000
HEAD = 1 << 20  # bytes of a file that says where it was held


class CaptureInput(Input):
    """A conversation's file, where it is held, and what happened. `conversation` is the file's name unless given, and
    `folder` the one that the file says.

    `last_message` is what the assistant said last, or what that is known by: while the file hasn't that yet, the answer is
    that it lags, and to be asked again in a moment; without it what is there is taken. `subagent` is whose file it is, if
    not the main one. `exclude` has patterns of folders that are left out besides those of the
    settings. `model_seconds` is how long language models may take in all; then rules do without.
    """

    file: str = Field(min_length=1)
    folder: str = ""
    event: str = Field(default=MANUAL, max_length=100)
    conversation: str = ""
    last_message: str = Field(default="", max_length=LONGEST)
    subagent: str = ""
    # Whether what was captured is condensed when it is time, and the documents are written.
    documents: bool = True
    exclude: list[str] = []
    model_seconds: float | None = Field(default=None, ge=0)


class CaptureResult(Output):
    """What came of it. Memories by their ids: `stored` are new, `superseded` are those that they took the place of."""

    outcome: CaptureOutcome
    scope: str | None = None
    lags: bool = False
    lines: int = 0  # of the file that had something in them
    found: int = 0
    stored: list[str] = []
    superseded: list[str] = []
    duplicates: int = 0
    rung: str = ""  # who picked out: rules, or a model's name
    condensed: str = ""  # why, if it was
    documents: list[WrittenView] = []
    notice: str = ""


async def _capture(context: Context, request: CaptureInput) -> CaptureResult:
    """Keep what a conversation left that is worth keeping."""
    folder = request.folder or await _held_in(context, request.file)
    if is_excluded(folder, request.exclude):
        return CaptureResult(outcome=CaptureOutcome.EXCLUDED)
    heard = CaptureEvent(
        conversation=request.conversation or Path(request.file).stem,
        file=request.file,
        event=request.event,
        folder=folder,
        last_message=request.last_message,
        subagent=request.subagent,
    )
    context = _hurried(context, request.model_seconds)
    done = await capture(context.engine, heard, agent=context.agent)
    why, notice = "", done.notice
    documents: list[WrittenView] = []
    if request.documents and done.scope is not None and done.outcome in _FOLLOWED:
        why, condensed = await _condense(context, done, scope=done.scope, event=request.event)
        notice = notice or condensed
        written = await write_documents(context.engine, done.scope, folder, agent=context.agent)
        documents = [WrittenView.of(one) for one in written]
    return CaptureResult(
        outcome=done.outcome,
        scope=done.scope,
        lags=done.lags,
        lines=done.lines,
        found=done.found,
        stored=list(done.stored),
        superseded=list(done.superseded),
        duplicates=done.duplicates,
        rung=done.rung,
        condensed=why,
        documents=documents,
        notice=notice,
    )


CAPTURE = operation("capture", _capture, writes=True, owner_only=True)


def _hurried(context: Context, seconds: float | None) -> Context:
    model = context.engine.llm
    if seconds is None or model is None:
        return context
    return replace(context, engine=replace(context.engine, llm=with_deadline(model, seconds)))


async def _held_in(context: Context, file: str) -> str:
    head = await asyncio.to_thread(
        context.engine.transcripts.follow, Path(file), TranscriptCursor(), most_bytes=HEAD
    )
    if head is None:
        raise InvalidInput(
            f"There is no file {file}.", advice="Give the path of a conversation's transcript."
        )
    if not head.cwd:
        raise InvalidInput(f"{file} doesn't say where it was held.", advice="Name the project's folder.")
    return head.cwd


# Where nothing is new, a run that was killed may have left the rest undone.
_FOLLOWED = frozenset({CaptureOutcome.CAPTURED, CaptureOutcome.NOTHING})


async def _condense(context: Context, done: CaptureReceipt, *, scope: str, event: str) -> tuple[str, str]:
    """Why it was done, if it was, and what is to be said of it."""
    why = await condensation_reason(context.engine, scope, event=event, captures=done.captures)
    if not why:
        return "", ""
    return why, (await condense(context.engine, scope, agent=context.agent)).notice

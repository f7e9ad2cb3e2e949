"""One capture: reads a conversation from its cursor on, stores what is worth storing, updates the project's documents."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import Field

from mindhold.access.secrets import fingerprint
from mindhold.capture.claude_md import WrittenView, write_documents
from mindhold.capture.condensation import SESSION_END_EVENT, condensation_reason, condense
from mindhold.capture.conversation_text import is_excluded, is_own_call, redact_steps, without_skipped_turns
from mindhold.capture.extracted_items import ExtractedItems
from mindhold.capture.extraction import Extractor
from mindhold.capture.journal import PENDING_NAMESPACE, Pending, parse_pending, put_pending
from mindhold.capture.project_folder import scope_of_folder
from mindhold.capture.project_log import log_messages, summarize_log
from mindhold.capture.settlement import settle, with_times
from mindhold.capture.status import MANUAL, record_capture, record_problem
from mindhold.capture.storage import store_items
from mindhold.conversations.sessions import clean_conversation_name
from mindhold.engine import Engine
from mindhold.history.index_guard import is_forgotten
from mindhold.hooks.already_shown import MARK_PREFIX, begins_with_mark, message_mark
from mindhold.locks import wait_for_claim
from mindhold.model.errors import InvalidInput, MindholdError, ModelAway, NotFound, Refused, StoreError
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.llm import FallbackModel, LanguageModel, Meter, RetryingModel, levels_of
from mindhold.ports.transcripts import Role, TranscriptCursor, TranscriptInfo, TranscriptRead, TranscriptStep


def _with_deadline(engine: Engine, seconds: float | None) -> Engine:
    """Bound the language model: all its answers together take at most so many seconds."""
    if seconds is None or engine.llm is None:
        return engine
    deadline = time.monotonic() + seconds
    levels = [
        replace(
            level,
            model=_DeadlineRetryingModel(level.model, deadline)
            if isinstance(level.model, RetryingModel)
            else _DeadlineModel(level.model, deadline),
        )
        for level in levels_of(engine.llm)
    ]
    return replace(engine, llm=FallbackModel(levels))


class _DeadlineModel:
    def __init__(self, model: LanguageModel, deadline: float) -> None:
        self._model = model
        self._deadline = deadline

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Answer a prompt. Raises ModelError, also when there is no more time."""
        return await self._within(self._model.complete(prompt, system=system, most_tokens=most_tokens))

    async def _within(self, answering: Coroutine[Any, Any, str]) -> str:
        seconds_left = self._deadline - time.monotonic()
        timeout = ModelAway(
            f"{self.name} doesn't answer within the time that there is for a conversation.",
            advice="Raise capture.worker_seconds, or lower llm.wait_seconds.",
        )
        if seconds_left <= 0:
            answering.close()
            timeout.unasked = True
            raise timeout
        try:
            async with asyncio.timeout(seconds_left):
                return await answering
        except TimeoutError as error:
            timeout.lost = True
            raise timeout from error


class _DeadlineRetryingModel(_DeadlineModel):
    _model: RetryingModel

    async def complete_metered(self, prompt: str, *, system: str, most_tokens: int, meter: Meter) -> str:
        """Answer a prompt and report each attempt to the meter. Raises ModelError, also when there is no more time."""
        answering = self._model.complete_metered(prompt, system=system, most_tokens=most_tokens, meter=meter)
        try:
            return await self._within(answering)
        except ModelAway as error:
            if error.lost:  # during an attempt, which the model itself can't report any more
                await meter.failed(error)
            raise


CURSOR_PREFIX = "capture:"  # prefix of a conversation's key
PIECE_BYTES = 4 << 20  # bytes that are read at once
MIN_LINES = {"Stop": 3, "SubagentStop": 3}  # lines with content; 1 for other events
SUBAGENTS = "agent-"  # prefix of a sub-agent's file
FORGOTTEN = "The conversation was forgotten: nothing of it is kept until `mindhold history forget --lift`."
UNREADABLE = "What was noted of the conversation can't be read here, so that it was read anew."


class CaptureOutcome(StrEnum):
    """The outcome of a capture."""

    CAPTURED = "captured"
    NOTHING = "nothing"  # new since the last time
    FEW = "few"  # lines: they wait for the next event
    LAGS = "lags"  # the file lacks the last message: call again in a moment, finally without `last_message`
    DISABLED = "disabled"
    EXCLUDED = "excluded"
    FORGOTTEN = "forgotten"  # by a user who wants none of it back
    OWN_CALL = "own_call"  # Mindhold's own call of a model
    GONE = "gone"  # the file or the folder
    BUSY = "busy"  # another process is at it


LONGEST = 1_000_000
HEAD_BYTES = 1 << 20  # bytes of a file that name its working folder


class CaptureInput(Input):
    """A conversation's transcript and the event that happened. `conversation` defaults to the file's name, `folder` to the
    one that the file names.

    `last_message` is the assistant's last message, or its mark: while the file lacks it, the outcome is `lags`, and the
    caller asks again in a moment; without it, what is there is taken. `subagent` is the owner of a sub-agent's file.
    `exclude` has patterns of excluded folders, in addition to the settings. `model_seconds` is how long language models may
    take in all; then rules do the work.
    """

    file: str = Field(min_length=1)
    folder: str = ""
    event: str = Field(default=MANUAL, max_length=100)
    conversation: str = ""
    last_message: str = Field(default="", max_length=LONGEST)
    subagent: str = ""
    # Whether captured memories are condensed when due, and documents written.
    documents: bool = True
    # Whether others were held in the project since: what it left open is not open any more.
    past: bool = False
    exclude: list[str] = []
    model_seconds: float | None = Field(default=None, ge=0)


class CaptureResult(Output):
    """The result of a capture, with memory ids: `stored` are new, `superseded` were replaced by them."""

    outcome: CaptureOutcome
    scope: str | None = None
    lags: bool = False
    lines: int = 0  # lines of the file with content
    found: int = 0
    stored: list[str] = []
    superseded: list[str] = []
    withdrawn: list[str] = []  # archived, because the conversation itself took them back
    duplicates: int = 0
    rejected: int = 0  # left out, for they are like what the user rejected
    rung: str = ""  # `rules`, or the name of the model that extracted
    condensed: str = ""  # the reason, if it was condensed
    documents: list[WrittenView] = []
    notice: str = ""


@dataclass(frozen=True, slots=True)
class _ConversationState:
    """The state of a conversation between two captures."""

    cursor: TranscriptCursor = field(default_factory=TranscriptCursor)
    carried: Mapping[str, Any] = field(default_factory=dict)
    begun: bool = False  # somebody has spoken
    own: bool = False
    skipping: bool = False
    last: str = ""  # mark of the assistant's last message

    @classmethod
    def of(cls, raw: str | None) -> _ConversationState | None:
        """Parse the state as far as it is understood, for another version may have written it; None where that is too little."""
        if raw is None:
            return cls()
        try:
            value = json.loads(raw)
        except ValueError:
            return None
        if not isinstance(value, dict):
            return None
        position = [value.get(name) for name in ("offset", "line")]
        if (
            not all(type(number) is int and number >= 0 for number in position)
            or type(value.get("mark")) is not str
        ):
            return None
        fields: dict[str, Any] = {
            name: value[name]
            for name, kind in _STATE_FIELDS.items()
            if name in value and isinstance(value[name], kind)
        }
        return cls(TranscriptCursor(value["offset"], value["line"], value["mark"]), **fields)

    def as_json(self) -> str:
        value = asdict(self)
        return json.dumps({**value.pop("cursor"), **value}, ensure_ascii=False, separators=(",", ":"))


_STATE_FIELDS: dict[str, type] = {"carried": dict, "begun": bool, "own": bool, "skipping": bool, "last": str}


class _ForgottenError(Exception):
    """The conversation that is being read was forgotten."""


class _Capture:
    """One capture of a conversation. `captures` counts those of the project, this one included."""

    def __init__(self, engine: Engine, event: CaptureInput, *, agent: str) -> None:
        conversation = clean_conversation_name(engine, event.conversation)
        self.captures = 0
        self._engine = engine
        self._event = event.model_copy(update={"conversation": conversation})
        self._scope: str | None = None
        self._agent = agent
        self._key = cursor_key(conversation, event.file, event.subagent)
        self._cursor = CURSOR_PREFIX + self._key
        self._extractor = Extractor(engine, event.folder, agent, conversation=conversation, file=event.file)
        self._raw: str | None = None  # the cursor's value in the store
        self._problem = ""
        self._lines = self._found = self._duplicates = self._rejected = 0
        self._stored: list[str] = []
        self._superseded: list[str] = []
        self._withdrawn: list[str] = []

    async def run(self) -> CaptureResult:
        """Capture the conversation. Raises InvalidInput and the store's errors; a repeated call resumes."""
        store, scope = self._engine.store, None
        try:
            scope = self._scope = await scope_of_folder(self._engine, self._event.folder, create=False)
            forgotten = CaptureResult(outcome=CaptureOutcome.FORGOTTEN, scope=scope, notice=FORGOTTEN)
            async with wait_for_claim(self._engine, self._cursor) as is_claimed:
                if not is_claimed:
                    return CaptureResult(outcome=CaptureOutcome.BUSY, scope=scope)
                if await self._was_forgotten():
                    return forgotten
                try:
                    return await self._run_claimed()
                except _ForgottenError:  # meanwhile, or the file only has the name of a forgotten one
                    await store.drop_entry(PENDING_NAMESPACE, self._key)
                    await store.set_cursor(self._cursor, None)
                    return forgotten
        except NotFound as error:
            return CaptureResult(outcome=CaptureOutcome.GONE, notice=str(error))
        except Refused as error:
            return CaptureResult(outcome=CaptureOutcome.EXCLUDED, notice=str(error))
        except StoreError:
            raise
        except MindholdError as error:
            if scope is not None:
                await record_problem(self._engine, scope, str(error))
            raise

    async def _run_claimed(self) -> CaptureResult:
        scope = self._scope
        self._raw = await self._engine.store.cursor(self._cursor)
        if not await self._finish_pending():
            return self._result(CaptureOutcome.BUSY, scope=scope)
        state = _ConversationState.of(self._raw)
        if state is None:
            state, self._problem = _ConversationState(), UNREADABLE
        if state.own:
            return CaptureResult(outcome=CaptureOutcome.OWN_CALL, scope=self._scope)
        outcome = await self._read(state)
        if outcome is CaptureOutcome.NOTHING and state.cursor.offset and self._event.event in _ENDS:
            await self._settle()
        notice = self._problem or self._extractor.notice
        has_taken = bool(self._lines or self._found or self._stored or self._withdrawn)
        if has_taken and self._scope is not None and outcome is not CaptureOutcome.OWN_CALL:
            recorded = await record_capture(
                self._engine,
                self._scope,
                conversation=self._event.conversation,
                event=self._event.event,
                stored=len(self._stored),
                rung=self._extractor.rung,
                problem=notice,
            )
            self.captures = recorded.captures
        elif self._problem and self._scope is not None:
            await record_problem(self._engine, self._scope, self._problem)
        if has_taken and outcome is CaptureOutcome.NOTHING:
            outcome = CaptureOutcome.CAPTURED
        if outcome in _CONTINUED_OUTCOMES:
            problem = await self._summarize()
            notice = notice or problem
        rung = self._extractor.rung if has_taken else ""
        return self._result(outcome, scope=self._scope, rung=rung, notice=notice)

    def _result(
        self, outcome: CaptureOutcome, *, scope: str | None, rung: str = "", notice: str = ""
    ) -> CaptureResult:
        return CaptureResult(
            outcome=outcome,
            scope=scope,
            lags=outcome is CaptureOutcome.LAGS,
            lines=self._lines,
            found=self._found,
            stored=self._stored,
            superseded=self._superseded,
            withdrawn=self._withdrawn,
            duplicates=self._duplicates,
            rejected=self._rejected,
            rung=rung,
            notice=notice,
        )

    async def _read(self, state: _ConversationState) -> CaptureOutcome:
        """Read piece by piece, until nothing is left that can be taken now."""
        while True:
            piece = await asyncio.to_thread(
                self._engine.transcripts.follow, Path(self._event.file), state.cursor, most_bytes=PIECE_BYTES
            )
            if piece is None:
                return CaptureOutcome.GONE
            await self._check_forgotten(piece.about)
            if piece.restarted:
                state = _ConversationState()
            if not piece.more and (outcome := self._reason_to_wait(piece, state)) is not None:
                return outcome
            next_ = await self._take(piece, state)
            if next_ is None:
                return CaptureOutcome.BUSY
            if next_.own:
                return CaptureOutcome.OWN_CALL
            if not piece.more:
                return CaptureOutcome.NOTHING
            state = next_

    def _reason_to_wait(self, piece: TranscriptRead, state: _ConversationState) -> CaptureOutcome | None:
        """Return why the last piece isn't taken yet; None if it is."""
        if self._is_lagging(piece.steps, state):
            return CaptureOutcome.LAGS
        if not piece.lines:
            return CaptureOutcome.NOTHING
        is_few = self._lines + piece.lines < MIN_LINES.get(self._event.event, 1)
        return CaptureOutcome.FEW if is_few else None

    def _is_lagging(self, steps: Sequence[TranscriptStep], state: _ConversationState) -> bool:
        """Whether the last message isn't in the file yet, which is written with a delay."""
        mark = self._event.last_message
        mark = mark if mark.startswith(MARK_PREFIX) else message_mark(mark)
        if not mark or self._event.event not in MIN_LINES or state.last == mark:
            return False
        last_prompt = max((index for index, step in enumerate(steps) if step.role is Role.USER), default=-1)
        messages = [step.text for step in steps[last_prompt + 1 :] if step.role is Role.CLAUDE]
        # A message may be on several lines.
        return not any(begins_with_mark("".join(messages[index:]), mark) for index in range(len(messages)))

    async def _take(self, piece: TranscriptRead, state: _ConversationState) -> _ConversationState | None:
        """Process one piece, in the order that makes it safe; None if another process did it meanwhile."""
        is_own = False if state.begun else is_own_call(piece.steps)
        last_message = next((step.text for step in reversed(piece.steps) if step.role is Role.CLAUDE), None)
        is_subagent = bool(self._event.subagent) or Path(self._event.file).name.startswith(SUBAGENTS)
        steps, skipping = without_skipped_turns(piece.steps, skipping=state.skipping, subagent=is_subagent)
        next_ = replace(
            state,
            cursor=piece.cursor,
            begun=state.begun or is_own is not None,
            own=bool(is_own),
            skipping=skipping,
            last=state.last if last_message is None else message_mark(last_message),
        )
        extraction = ExtractedItems((), state.carried)
        if not is_own:
            if not self._engine.settings.capture.subagents:
                steps = [step for step in steps if not step.aside]
            steps = await asyncio.to_thread(redact_steps, steps)
            if not is_subagent:
                await self._log(steps)
            extraction = await self._extractor.pick(steps, state.carried, scope=self._scope)
            extraction = replace(extraction, items=with_times(extraction.items, piece.steps))
            next_ = replace(next_, carried=extraction.carried)
        self._lines += piece.lines
        if extraction.items:
            await self._check_forgotten(piece.about)
            self._scope = self._scope or await scope_of_folder(self._engine, self._event.folder, create=True)
            pending = Pending(self._raw, next_.as_json(), self._scope, extraction.items)
            await put_pending(self._engine, self._key, pending)
        return next_ if await self._store(extraction, next_.as_json()) else None

    async def _settle(self) -> None:
        """Judge the whole conversation, which was captured in pieces, now that it has ended. A model judges its own pieces."""
        is_subagent = bool(self._event.subagent) or Path(self._event.file).name.startswith(SUBAGENTS)
        if self._scope is None or is_subagent or self._engine.settings.capture.by_model:
            return
        settlement = await settle(
            self._engine,
            self._event.file,
            conversation=self._event.conversation,
            folder=self._event.folder,
            scope=self._scope,
            agent=self._agent,
        )
        if settlement is None or self._raw is None:
            return
        await self._check_forgotten()
        counted = self._found, self._duplicates
        items = (*settlement.items, *settlement.withdrawn)
        await self._store(ExtractedItems(items), self._raw)
        self._found, self._duplicates = counted  # most of it was found before

    async def _log(self, steps: Sequence[TranscriptStep]) -> None:
        """Save what was said in the project's log. It comes first: what is pending has no messages."""
        self._scope = await log_messages(
            self._engine,
            steps,
            conversation=self._event.conversation,
            file=self._event.file,
            folder=self._event.folder,
            scope=self._scope,
            agent=self._agent,
        )

    async def _summarize(self) -> str:
        """Work the conversation into the project's summary at its end; return what went wrong."""
        if self._scope is None or self._event.event not in _ENDS:
            return ""
        await self._check_forgotten()
        return await summarize_log(
            self._engine, self._scope, conversation=self._event.conversation, agent=self._agent
        )

    async def _store(self, extraction: ExtractedItems, next_: str) -> bool:
        """Store the items and move the cursor; False if another process moved it, who then owns the pending note too."""
        if extraction.items and self._scope is not None:
            await self._check_forgotten()
            stored = await store_items(
                self._engine,
                extraction.items,
                conversation=self._event.conversation,
                file=self._event.file,
                scope=self._scope,
                agent=self._agent,
                past=self._event.past,
            )
            self._found += len(extraction.items)
            self._stored += stored.stored
            self._superseded += stored.superseded
            self._withdrawn += stored.withdrawn
            self._duplicates += stored.duplicates
            self._rejected += stored.rejected
            await self._extractor.note(extraction, stored.ids)
        if not await self._engine.store.swap_cursor(self._cursor, old=self._raw, new=next_):
            return False
        self._raw = next_
        if extraction.items:
            await self._engine.store.drop_entry(PENDING_NAMESPACE, self._key)
        return True

    async def _check_forgotten(self, about: TranscriptInfo | None = None) -> None:
        """Raise _ForgottenError if the conversation was forgotten meanwhile: extraction takes long, with a model minutes."""
        if await self._was_forgotten(about):
            raise _ForgottenError

    async def _finish_pending(self) -> bool:
        """Store what a killed run had found, unless its cursor has moved on; False where another process is at it."""
        entry = await self._engine.store.entry(PENDING_NAMESPACE, self._key, now=self._engine.clock())
        if entry is None:
            return True
        try:
            pending = parse_pending(entry.value)
        except ValueError:  # the cursor hasn't moved: all of it is found again
            self._problem = UNREADABLE
        else:
            if pending.old == self._raw:
                self._scope = self._scope or await self._scope_of(pending)
                return await self._store(ExtractedItems(pending.items), pending.next_)
        await self._engine.store.drop_entry(PENDING_NAMESPACE, self._key)
        return True

    async def _scope_of(self, pending: Pending) -> str | None:
        """Return the noted scope if it still exists, else the folder's."""
        if pending.scope in {scope.name for scope in await self._engine.store.scopes()}:
            return pending.scope
        return await scope_of_folder(self._engine, self._event.folder, create=True)

    async def _was_forgotten(self, about: TranscriptInfo | None = None) -> bool:
        """Whether the conversation was forgotten, or the one of its sub-agent's folder, or the one that the file names."""
        file = Path(self._event.file)
        parents = [
            file.parts[index - 1] for index, part in enumerate(file.parts) if part == "subagents" and index
        ]
        session_ids = (about.session_id, about.part_of) if about else ()
        for name in dict.fromkeys((self._event.conversation, file.stem, *parents, *session_ids)):
            if name and await is_forgotten(self._engine, name):
                return True
        return False


def cursor_key(conversation: str, file: str, subagent: str = "") -> str:
    """Return the key of a conversation's file, independent of its folder."""
    return fingerprint(f"{conversation}\n{subagent}\n{Path(file).name}")[:32]


async def _capture(context: Context, request: CaptureInput) -> CaptureResult:
    """Store what is worth storing of a conversation."""
    engine, agent = _with_deadline(context.engine, request.model_seconds), context.agent
    settings = engine.settings.capture
    folder = request.folder or await _working_folder(engine, request.file)
    if is_excluded(folder, request.exclude):
        return CaptureResult(outcome=CaptureOutcome.EXCLUDED)
    if not settings.enabled or (request.subagent and not settings.subagents):
        return CaptureResult(outcome=CaptureOutcome.DISABLED)
    if is_excluded(folder, settings.excluded):
        return CaptureResult(outcome=CaptureOutcome.EXCLUDED)
    conversation = request.conversation or Path(request.file).stem
    event = request.model_copy(update={"folder": folder, "conversation": conversation})
    run = _Capture(engine, event, agent=agent)
    result = await run.run()
    scope = result.scope
    if not request.documents or scope is None or result.outcome not in _CONTINUED_OUTCOMES:
        return result
    notice = ""
    reason = await condensation_reason(engine, scope, event=request.event, captures=run.captures)
    if reason:
        notice = (await condense(engine, scope, agent=agent)).notice
    documents = await write_documents(engine, scope, folder, agent=agent)
    return result.model_copy(
        update={
            "condensed": reason,
            "documents": [WrittenView.fill(document) for document in documents],
            "notice": result.notice or notice,
        }
    )


CAPTURE = operation("capture", _capture, writes=True, owner_only=True)


async def _working_folder(engine: Engine, file: str) -> str:
    head = await asyncio.to_thread(
        engine.transcripts.follow, Path(file), TranscriptCursor(), most_bytes=HEAD_BYTES
    )
    if head is None:
        raise InvalidInput(
            f"There is no file {file}.", advice="Give the path of a conversation's transcript."
        )
    if not head.cwd:
        raise InvalidInput(f"{file} doesn't say where it was held.", advice="Name the project's folder.")
    return head.cwd


_ENDS = frozenset({SESSION_END_EVENT, MANUAL})  # events after which a conversation is worked into the summary
# Where nothing is new, a killed run may have left the rest undone.
_CONTINUED_OUTCOMES = frozenset({CaptureOutcome.CAPTURED, CaptureOutcome.NOTHING})

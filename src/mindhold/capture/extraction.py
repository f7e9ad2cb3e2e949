"""Extracts what is worth storing: by a language model where the user agreed to one, else by rules."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mindhold.capture.conversation_text import (
    Chunk,
    chunks,
    earlier_messages,
    ending,
    person_messages,
)
from mindhold.capture.extracted_items import CapturedItem, ExtractedItems, signs_metadata
from mindhold.capture.extraction_prompt import (
    NO_OUTLINE,
    WITHDRAWN,
    ConversationOutline,
    build_prompt,
    build_system_prompt,
)
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.engine import Engine
from mindhold.memories.model_budget import EXTRACT, LedgerEntry, Metered, metered, note_memories
from mindhold.model.error_signs import error_signs
from mindhold.model.errors import ModelBroken, ModelError
from mindhold.model.memory import Kind, Memory
from mindhold.model.prompt_markup import parse_json_answer, quote_as_json
from mindhold.model.query import Filter
from mindhold.model.tokens import truncate_to_tokens
from mindhold.ports.transcripts import TranscriptStep
from mindhold.text.faithfulness import has_known_values
from mindhold.text.similarity import content_words

MAX_ANSWER_TOKENS = 1_500
MAX_ITEMS = 20
SHORTEST, LONGEST = 10, 1_000  # characters of an item
MAX_TAGS, LONGEST_TAG = 8, 50
FAILURE_KINDS = (Kind.ERROR, Kind.GOTCHA)
SHARED_WORDS = 2  # from which an item is known to be about a failure
MAX_REPAIRED_TOKENS = 1_000  # tokens of its own answer that the model is shown again
# What git says anyway, and what nobody understands who has not read the conversation.
_GIT_SAYS = re.compile(
    r"(?:(?:successfully )?(?:committed|pushed|merged)\b(?! to)|(?:opened|created|merged) (?:a |the )?(?:pr|pull request)\b"
    r"|(?:changes|everything|all changes|work) (?:was|were|has been|have been|is|are) (?:committed|pushed|merged))",
    re.IGNORECASE,
)
_POINTS_NOWHERE = re.compile(
    r"\b(?:option|choice|point|variant|approach) (?:\d|[a-d]\b(?! ))|\bthat (?:url|link|one|option|file|approach)\b"
    r"|^(?:the|this|that) (?:problem|issue|process|error|bug|question|task)(?: was| is| has been)?(?: now)? "
    r"(?:fixed|solved|done|resolved|complete|completed|finished|did not work|didn't work|works)\b",
    re.IGNORECASE,
)


async def extract_by_model(
    engine: Engine,
    model: Metered,
    lines: Sequence[tuple[int, str]],
    existing: Sequence[Memory],
    outline: ConversationOutline = NO_OUTLINE,
    *,
    repair: bool = True,
) -> tuple[CapturedItem, ...]:
    """Extract items from readable lines, each with its number in the transcript. Without `repair` the model is asked once.

    Raises ModelError, also when the second answer can't be used either.
    """
    if not lines:
        return ()
    kinds = engine.settings.capture.captured_kinds
    redacting = engine.settings.intake.redact
    prompt = await asyncio.to_thread(build_prompt, lines, existing, outline, redacting=redacting)
    lines = outline.with_lines(lines)
    system = build_system_prompt(kinds)
    answer = await model.complete(prompt, system=system, most_tokens=MAX_ANSWER_TOKENS)
    items, fault = parse_extraction(answer, lines, kinds)
    if fault and repair:
        answer = await model.complete(
            f"{prompt}\n\n{_repair_request(answer, fault)}", system=system, most_tokens=MAX_ANSWER_TOKENS
        )
        items, fault = parse_extraction(answer, lines, kinds)
    if fault:
        raise ModelBroken(
            f"{model.name} answers what can't be used: {fault}.",
            advice="Choose another model, or leave it to rules.",
        )
    return items


def parse_extraction(
    answer: str, lines: Sequence[tuple[int, str]], kinds: Collection[Kind]
) -> tuple[tuple[CapturedItem, ...], str]:
    """Parse a model's answer; return the items, and what is wrong with the whole. Single wrong items are dropped."""
    value = parse_json_answer(answer)
    if value is None:
        return (), "it is no JSON, or more than JSON"
    if not isinstance(value, list):
        return (), "it is no array"
    shown = " ".join(text for _, text in lines).casefold()
    parsed = [item for entry in value if (item := _parse_item(entry, lines, kinds)) is not None]
    items = [item for item in parsed if item.withdrawn or _is_worth_keeping(item.content, shown)]
    if value and not parsed:
        names = ", ".join(sorted(kinds))
        return (
            (),
            f"no entry of it has a type of {names}, a content of {SHORTEST} to {LONGEST} characters and tags",
        )
    unique: dict[tuple[Kind, str], CapturedItem] = {}
    for item in items:
        unique.setdefault((item.kind, item.content.casefold()), item)
    return tuple(unique.values())[:MAX_ITEMS], ""


def _parse_item(value: Any, lines: Sequence[tuple[int, str]], kinds: Collection[Kind]) -> CapturedItem | None:
    if not isinstance(value, dict):
        return None
    content = _parse_text(value.get("content"), LONGEST)
    if value.get("type") == WITHDRAWN and content:
        return CapturedItem(Kind.CONTEXT, content, lines[-1][0], withdrawn=True)
    kind = next((kind for kind in kinds if kind.value == value.get("type")), None)
    tags = _parse_tags(value.get("tags"))
    supersedes = _parse_text(value.get("supersedes_content") or "", LONGEST)
    if kind is None or content is None or len(content) < SHORTEST or tags is None or supersedes is None:
        return None
    line = _cited_line(value.get("line"), content, lines)
    signs = _failure_signs(content, line, lines) if kind in FAILURE_KINDS else ()
    return CapturedItem(kind, content, line, tags, supersedes, metadata=signs_metadata(signs))


def _is_worth_keeping(content: str, shown: str) -> bool:
    """Whether it stands alone, isn't what git says anyway, and has no number or path that the model wasn't shown."""
    if _GIT_SAYS.match(content) or _POINTS_NOWHERE.search(content):
        return False
    return has_known_values(content, shown)


def _parse_text(value: Any, longest: int) -> str | None:
    return " ".join(value.split()) if isinstance(value, str) and len(value) <= longest else None


def _parse_tags(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return ()
    if not isinstance(value, list):
        return None
    tags = [_parse_text(tag, LONGEST_TAG) for tag in value]
    if any(tag is None for tag in tags):
        return None
    unique: dict[str, str] = {}
    for tag in filter(None, tags):
        unique.setdefault(tag.casefold(), tag)
    return tuple(unique.values())[:MAX_TAGS]


def _cited_line(value: Any, content: str, lines: Sequence[tuple[int, str]]) -> int:
    """Return the cited line, if it exists; else the line with the most common words."""
    if type(value) is int and any(number == value for number, _ in lines):
        return value
    words = content_words(content)
    return max(lines, key=lambda line: len(words & content_words(line[1])))[0]


def _failure_signs(content: str, cited: int, lines: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Return the error signs of the failure that the item is about: of the cited line, or of one with common words."""
    words = content_words(content)
    matches = [
        (number == cited, len(words & content_words(text)), signs)
        for number, text in lines
        if (signs := error_signs(text.partition(": ")[2]))
    ]
    is_cited, common_words, signs = max(matches, default=(False, 0, ()))
    return signs if is_cited or common_words >= SHARED_WORDS else ()


def _repair_request(answer: str, fault: str) -> str:
    """Say what is wrong with an answer; the answer is quoted, because it may repeat quoted data."""
    quoted = quote_as_json({"answer": truncate_to_tokens(answer, MAX_REPAIRED_TOKENS)})
    return f"You answered this, which can't be used, for {fault}:\n{quoted}\nReply again, with nothing but the JSON array."


RULES = "rules"
MAX_EXISTING = 200  # existing memories that a model may be shown
MAX_OWN_EXISTING = 50  # of the same conversation


@dataclass(slots=True)
class Extractor:
    """Extracts for one capture. The model is asked a limited number of times, and no more after a failure; then rules do it."""

    engine: Engine
    folder: str
    agent: str
    notice: str = ""
    conversation: str = ""
    file: str = ""  # the transcript, in which the person's earlier words are looked up
    _model: Metered | None = field(init=False)
    _has_answered: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        model, capture = self.engine.llm, self.engine.settings.capture
        self._model = metered(self.engine, model, purpose=EXTRACT) if capture.by_model and model else None
        if capture.by_model and model is None:
            self.notice = "There is no language model: rules picked out what was captured."

    @property
    def rung(self) -> str:
        """Return who extracted so far: rules, or the model that answered."""
        return self._model.name if self._model is not None and self._has_answered else RULES

    async def pick(
        self, steps: Sequence[TranscriptStep], carried: Mapping[str, Any], *, scope: str | None
    ) -> ExtractedItems:
        """Extract what is worth storing in these steps, of the captured kinds. Raises the store's errors."""
        if self._model is None:
            return await self._by_rules(steps, carried)
        items: list[CapturedItem] = []
        calls: list[tuple[LedgerEntry, tuple[int, ...]]] = []
        existing = await self._existing(scope)
        outline = await self._outline(steps)
        for chunk in chunks(steps):
            chunk_items = await self._by_model(chunk, existing, replace(outline, noted=tuple(items)))
            if chunk_items is None:
                extraction = await self._by_rules(chunk.steps, carried)
                chunk_items, carried = extraction.items, extraction.carried
            elif self._model.line is not None:
                calls.append((self._model.line, tuple(range(len(items), len(items) + len(chunk_items)))))
            items += chunk_items
        return ExtractedItems(tuple(items), carried, tuple(calls))

    async def note(self, extraction: ExtractedItems, ids: Sequence[str | None]) -> None:
        """Record which memories the calls were for."""
        for line, indexes in extraction.calls:
            memory_ids = [memory_id for index in indexes if (memory_id := ids[index]) is not None]
            await note_memories(self.engine, line, memory_ids)

    async def _by_rules(self, steps: Sequence[TranscriptStep], carried: Mapping[str, Any]) -> ExtractedItems:
        extracted = await extract_by_rules(self.engine, steps, carried, folder=self.folder)
        kinds = self.engine.settings.capture.captured_kinds
        return replace(extracted, items=tuple(item for item in extracted.items if item.kind in kinds))

    async def _outline(self, steps: Sequence[TranscriptStep]) -> ConversationOutline:
        """Return what the person said in the whole conversation, and how it ends so far."""
        first = min((step.line for step in steps), default=0)
        earlier = []
        if self.file and first > 1:
            earlier = await asyncio.to_thread(
                earlier_messages, self.engine.transcripts, Path(self.file), before=first
            )
        said = (*earlier, *person_messages(steps))
        return ConversationOutline(said, ending(steps), conversation=self.conversation)

    async def _by_model(
        self, chunk: Chunk, existing: Sequence[Memory], outline: ConversationOutline
    ) -> tuple[CapturedItem, ...] | None:
        """Extract with the model; None where it isn't asked any more, or fails."""
        model = self._model
        calls_left = self.engine.settings.capture.most_calls - model.calls if model else 0
        if model is None or calls_left <= 0 or self.notice:
            return None
        if not chunk.lines:
            return ()
        try:
            items = await extract_by_model(
                self.engine, model, chunk.lines, existing, outline, repair=calls_left > 1
            )
        except ModelError as error:
            self.notice = f"Rules picked out what the model should have: {error}"
            return None
        self._has_answered = True
        return items

    async def _existing(self, scope: str | None) -> list[Memory]:
        if scope is None:
            return []
        kinds = tuple(sorted(self.engine.settings.capture.captured_kinds))
        where = Filter(viewer=self.agent, scopes=(scope,), kinds=kinds)
        newest = await self.engine.store.find(where, limit=MAX_EXISTING)
        if not self.conversation:
            return newest
        own = await self.engine.store.find(
            replace(where, conversation=self.conversation), limit=MAX_OWN_EXISTING
        )
        return [*own, *(memory for memory in newest if memory.id not in {each.id for each in own})]

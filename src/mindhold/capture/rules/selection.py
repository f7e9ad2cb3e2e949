"""Runs all rules over a conversation, selects among their candidates, and carries state to the next call."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from mindhold.capture.candidates import KIND_ORDER, Candidate, candidates_in
from mindhold.capture.cues import cues_in
from mindhold.capture.extracted_items import (
    LEAST_SHOWN,
    SIGNS,
    CapturedItem,
    ExtractedItems,
    RuleCandidate,
)
from mindhold.capture.judge import (
    NUMBERED,
    Meaning,
    features,
    keep_probability,
    kind_of,
    learned,
    typed_worth,
    understands,
    wish_by,
    wish_probability,
)
from mindhold.capture.rules.agreements import Offer, agreements
from mindhold.capture.rules.architecture import (
    architecture,
    manifest_statements,
    project_facts,
    table_statements,
)
from mindhold.capture.rules.conventions import corrections, gotchas, preferences, procedures, refusals
from mindhold.capture.rules.decisions import MOST_CLAIMS, PLAN_AGREED, correct_choices, decisions, own_choices
from mindhold.capture.rules.failures import (
    MAX_OPEN_FAILURES,
    OpenFailure,
    conflicts,
    fixed_failures,
    reported_failures,
    stated_causes,
    told_failures,
    wrong_calls,
)
from mindhold.capture.rules.korean import korean_statements
from mindhold.capture.rules.progress import open_ends, releases, reported_work
from mindhold.capture.rules.sentences import Sentence, conversation_sentences
from mindhold.capture.rules.tool_calls import ToolCall, deleted_files, tool_calls
from mindhold.engine import Engine
from mindhold.memories.reflect import OPEN_QUESTION
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.embedder import Matrix
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.keywords import extract_keywords
from mindhold.text.pattern import LazyPattern, any_case
from mindhold.text.redaction import redact

LEAST_WEIGHT = 0.6  # of a rule, where nothing judges its candidates
# What it is worth to a reader, at least: a sentence of the assistant, a fact of the person that a rule knows, what a rule made of an event.
LEAST_WORTH = {Role.CLAUDE: 0.7, Role.USER: 0.5, Role.TOOL: 0.5}
# What a sentence of the person that may be a wish is worth, at least; more where only the cues say so, which know less.
LEAST_BY_MEANING, LEAST_BY_CUES = 0.32, 0.4
LEAST_WISH = 0.35  # probability that the person means it to last, from which it is kept as a preference
LONGEST_WISH = 240  # characters
LONGEST_ASKING = 800  # characters of a message with a wish: longer ones are pasted, or describe a task
PLAINLY = 0.65  # weight of an open end that names what is left
MEMORIES_AN_HOUR, FEWEST_MEMORIES = 8, 6  # of a conversation, at most
SAME_WORDS = 0.6  # share of common words from which two say the same
PART_SHARE, PART_WORDS = 0.9, 3  # share and number of words from which one is a part of the other
SAME_MEANING = 0.8  # similarity from which two say the same
MAX_PER_LINE = 5
MAX_PER_KIND = 12

_COMMAND = LazyPattern(r"`([^`]+)`")
_UNSTATED_KINDS = frozenset((Kind.PROCEDURE, Kind.CONTEXT))  # no sentence of chatter is taken for these kinds


async def select_candidates(engine: Engine, candidates: Sequence[RuleCandidate]) -> list[RuleCandidate]:
    """Select the candidates worth storing, in the order of the conversation."""
    ranked = sorted(
        candidates,
        key=lambda candidate: (-candidate.weight, KIND_ORDER.index(candidate.kind), candidate.line),
    )
    if not ranked:
        return []
    vectors = await engine.vector_source.embed([candidate.content for candidate in ranked])
    cosines: Matrix | None = None if vectors is None else vectors @ vectors.T

    def says_same(row: int, column: int) -> bool:
        new, old = ranked[row], ranked[column]
        if _same_words(new, old):
            return True
        if cosines is None or not {new.kind, old.kind}.isdisjoint(_UNSTATED_KINDS):
            return False
        return engine.vector_source.similarity(float(cosines[row, column])) >= SAME_MEANING

    unique: list[int] = []
    for index in range(len(ranked)):
        if not any(says_same(index, other) for other in unique):
            unique.append(index)
    return sorted(_limit([ranked[index] for index in unique]), key=lambda candidate: candidate.line)


def _same_words(new: RuleCandidate, old: RuleCandidate) -> bool:
    if new.kind == Kind.PROCEDURE or old.kind == Kind.PROCEDURE:
        return new.kind == old.kind and _COMMAND.findall(new.content) == _COMMAND.findall(old.content)
    if not set(new.metadata.get(SIGNS, ())).isdisjoint(old.metadata.get(SIGNS, ())):
        return True
    new_words, old_words = _words(new.content), _words(old.content)
    common = len(new_words & old_words)
    if not common:
        return False
    return (common >= PART_WORDS and common >= PART_SHARE * len(new_words)) or common >= SAME_WORDS * len(
        new_words | old_words
    )


@lru_cache(1_024)
def _words(text: str) -> frozenset[str]:
    return frozenset(lexemes(text)) - stop_lexemes()


def _limit(candidates: Sequence[RuleCandidate]) -> list[RuleCandidate]:
    """Limit the candidates of each turn and each kind to the surest."""
    lines: Counter[int] = Counter()
    kinds: Counter[Kind] = Counter()
    limited: list[RuleCandidate] = []
    for candidate in candidates:
        if lines[candidate.line] < MAX_PER_LINE and kinds[candidate.kind] < MAX_PER_KIND:
            lines[candidate.line] += 1
            kinds[candidate.kind] += 1
            limited.append(candidate)
    return limited


MAX_SEEN = 150
MAX_COUNTED = 30


@dataclass(slots=True)
class RuleState:
    """The state carried between calls. `seen` are short hashes of earlier items; `counts` how often commands succeeded.

    `offer` is the assistant's last offer, `claims` its own choices in the last message.
    """

    failures: Annotated[list[OpenFailure], Field(alias="troubles")] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    offer: Offer | None = None
    claims: list[str] = field(default_factory=list)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RuleState:
        """Build the state from JSON; anything unreadable gives an empty state."""
        try:
            return _state_adapter().validate_python(dict(value))
        except ValidationError:
            return cls()

    def as_json(self) -> dict[str, Any]:
        counts = dict(list(self.counts.items())[-MAX_COUNTED:])
        document: dict[str, Any] = {
            "troubles": [failure.as_json() for failure in self.failures[-MAX_OPEN_FAILURES:]],
            "seen": self.seen[-MAX_SEEN:],
            "counts": counts,
        }
        if self.offer:
            document["offer"] = self.offer.as_json()
        if self.claims:
            document["claims"] = self.claims[:MOST_CLAIMS]
        return document

    def is_new(self, content: str) -> bool:
        """Whether the content is new; it is recorded as seen."""
        mark = hashlib.sha256(content.casefold().encode()).hexdigest()[:10]
        if mark in self.seen:
            return False
        self.seen.append(mark)
        return True


@cache
def _state_adapter() -> TypeAdapter[RuleState]:
    return TypeAdapter(RuleState)


MAX_TAGS = 4


async def extract_by_rules(
    engine: Engine,
    steps: Sequence[TranscriptStep],
    carried: Mapping[str, Any],
    *,
    folder: str,
    judging: bool = True,
) -> ExtractedItems:
    """Extract what is new in these steps; `carried` is the state after the last call for the same conversation.

    Without `judging` the rules decide alone, by the weights of what they propose.
    """
    state = RuleState.from_json(carried)
    was_asked = state.offer is not None and state.offer.question != ""
    sentences, candidates = propose(steps, state, folder=folder)
    if judging:
        worthy = judged(candidates, await wish_meanings(engine, candidates))
    else:
        rules = (candidate.rule for candidate in candidates)
        worthy = [rule for rule in rules if rule is not None and rule.weight >= LEAST_WEIGHT]
    selected = correct_choices(
        await select_candidates(engine, worthy), sentences, state.claims, asked=was_asked
    )
    if judging:
        selected = surest(selected, steps)
    if steps:
        last = max((item.line for item in steps if item.role == Role.USER and not item.aside), default=0)
        state.claims = [item.content for item in selected if item.own and item.line > last]
    items = tuple(_to_item(item) for item in selected if state.is_new(item.content))
    return ExtractedItems(items, state.as_json())


def propose(
    steps: Sequence[TranscriptStep], state: RuleState, *, folder: str
) -> tuple[list[Sentence], list[Candidate]]:
    """Return the sentences of the steps, and all candidates: those of rules, and sentences that no rule knows."""
    sentences, calls = list(conversation_sentences(steps)), list(tool_calls(steps))
    rules = [_clean_candidate(item, folder) for item in _candidates(steps, sentences, calls, state)]
    deleted = deleted_files(steps)
    candidates = [
        replace(one, content=_within_project(one.content, folder))
        for one in candidates_in(steps, sentences, calls, rules)
    ]
    return sentences, [one for one in candidates if not any(name in one.content for name in deleted)]


_STEP_CHOSEN = any_case(
    r"^chosen:|^comment \d|^\W*(?:how|what|which|where) (?:should|would|do|did|can|shall) (?:i|we|you) (?:\w+ )?(?:this|it|that|here|proceed|next)\?"
    r"|\b(?:do you (?:still )?have|want (?:me )?to|did you|have you|where did|what happened|(?:what|which) (?:scenario|outcome|error)|how should i (?:deliver|update|post|reply|land)|should i (?:proceed|go on|continue|commit|push|open (?:a|the) pr))\b[^?]*\?.*\bchosen:"
    r"|\bchosen: (?:yes, (?:run|proceed|update|push|commit)|retry|stop here|proceed|continue|commit it|push it|not now|later)\b"
    r"|(?:コミット|削除|プッシュ|マージ)しますか|(?:提交|删除|推送|合并)吗|(?:커밋|삭제|푸시|병합)(?:할까요|하시겠)"
)


def _tells_only_of_steps(candidate: Candidate) -> bool:
    """Whether it only says how the conversation went on: a plan's title, an answer about the next step."""
    if candidate.role is Role.TOOL:
        return candidate.content.startswith(PLAN_AGREED) or bool(_STEP_CHOSEN.search(candidate.content))
    return candidate.role is Role.CLAUDE and bool(NUMBERED.search(candidate.content))


async def wish_meanings(engine: Engine, candidates: Sequence[Candidate]) -> dict[str, Meaning]:
    """Return the vectors of sentences that may be wishes, by their text; none unless the judge has weights for the local model."""
    source = engine.vector_source
    model = (source.model or "").rpartition("/")[0]
    if source.terms is not None or wish_by(model) not in learned():
        return {}
    texts = [one.content for one in candidates if _may_be_wish(one) and understands(model, one.content)]
    vectors = await source.embed(texts) if texts else None
    if vectors is None:
        return {}
    return {
        text: Meaning(model, vector.astype(np.float64)) for text, vector in zip(texts, vectors, strict=True)
    }


def _may_be_wish(candidate: Candidate) -> bool:
    """Whether it may be meant to last: it says enough alone, and asks for nothing but how it is to be done."""
    text = candidate.content
    if candidate.role is not Role.USER or len(text) > LONGEST_WISH or candidate.message > LONGEST_ASKING:
        return False
    cues = cues_in(text)
    asks_how = cues["practice"] and not cues["task"] and _ASKS_YOU.search(text)
    if cues["question"] and not (asks_how or any(cues[name] for name in _EVEN_IN_A_QUESTION)):
        return False
    if _NO_WISH.search(text):
        return False
    if cues["lasting"]:
        return True
    if _POINTS_BACK.search(text) or (cues["task"] and not any(cues[name] for name in _EVEN_IN_A_TASK)):
        return False
    return bool(cues["ban"] or cues["norm"] or not _TELLS_AN_ERROR.search(text))


def judged(
    candidates: Sequence[Candidate], meanings: Mapping[str, Meaning] = MappingProxyType({})
) -> list[RuleCandidate]:
    """Return the candidates that are probably worth storing, weighed by that probability; `meanings` by their text."""
    kept = []
    for candidate in candidates:
        if _tells_only_of_steps(candidate):
            continue
        known = features(candidate)
        keep, wish, worth = keep_probability(known), 0.0, 0.0
        if _may_be_wish(candidate):
            meaning = meanings.get(candidate.content)
            wish = wish_probability(known, meaning)
            worth = typed_worth(keep, wish)
            worth = worth if worth >= (LEAST_BY_MEANING if meaning else LEAST_BY_CUES) else 0.0
        if (candidate.role is not Role.USER or candidate.rule) and keep >= LEAST_WORTH[candidate.role]:
            worth = max(worth, keep)
        too_little = not worth or (candidate.objected and wish < LEAST_WISH)
        if too_little and not _is_left_open(candidate):
            continue
        rule = candidate.rule or RuleCandidate(kind_of(known), candidate.content, candidate.line)
        if wish >= LEAST_WISH and rule.kind is not Kind.DECISION:
            rule = replace(rule, kind=Kind.PREFERENCE)
        if rule.kind is Kind.PREFERENCE or (candidate.role is Role.USER and candidate.rule is None):
            sure = max(worth, wish)
            kept.append(replace(rule, weight=sure, confidence=round(sure, 2)))
        else:
            kept.append(replace(rule, weight=max(keep, worth, rule.weight if candidate.rule else 0.0)))
    return kept


def _is_left_open(candidate: Candidate) -> bool:
    """Whether the last message says plainly that something is left to do, which the next conversation begins with."""
    rule = candidate.rule
    return candidate.last and rule is not None and OPEN_QUESTION in rule.tags and rule.weight >= PLAINLY


def surest(selected: Sequence[RuleCandidate], steps: Sequence[TranscriptStep]) -> list[RuleCandidate]:
    """Return as many as the conversation's time allows: sure wishes of the person first, then the surest."""
    moments = [step.timestamp for step in steps if step.timestamp is not None]
    hours = (max(moments) - min(moments)).total_seconds() / 3_600 if moments else 0.0
    most = max(FEWEST_MEMORIES, round(MEMORIES_AN_HOUR * hours))

    def rank(one: RuleCandidate) -> tuple[bool, float]:
        is_sure_wish = one.kind is Kind.PREFERENCE and one.weight >= LEAST_SHOWN
        return not is_sure_wish, -one.weight

    ranked = sorted(selected, key=rank)[:most]
    return [one for one in selected if one in ranked]


_EVEN_IN_A_TASK = ("ban", "norm", "only", "complaint")
_EVEN_IN_A_QUESTION = ("lasting", "ban", "complaint")
_ASKS_YOU = any_case(r"\b(?:can|could|would|will) (?:you|we)\b|\bplease\b")
_POINTS_BACK = any_case(
    r"^\W*(?:\w+\W+){0,4}(?:it|this|that|them|those|these|one)[.!]*$|\b(?:do|take|go with|options?|pick) (?:#?\d{1,2}|(?-i:[A-E]))(?=[\s,.)!?]+(?:$|and\b|but\b|instead|please|first|then|do\b))"
)
_NO_WISH = any_case(
    r"https?://|^\W*(?:let me know|ask (?:me )?any|feel free|thanks?|i (?:think|guess|believe|see|wonder|tried)\b|if anything)"
)
_TELLS_AN_ERROR = any_case(r"\b(?:error|exception|traceback|failed with)\b")


def _candidates(
    steps: Sequence[TranscriptStep],
    sentences: Sequence[Sentence],
    calls: Sequence[ToolCall],
    state: RuleState,
) -> Iterator[RuleCandidate]:
    agreed, state.offer = agreements(steps, state.offer)
    yield from decisions(sentences, steps, calls, agreed)
    yield from own_choices(sentences)
    yield from preferences(sentences)
    yield from corrections(sentences)
    yield from refusals(steps, calls)
    yield from project_facts(sentences)
    yield from korean_statements(sentences)
    yield from fixed_failures(calls, sentences, state.failures)
    yield from conflicts(calls, sentences)
    yield from reported_failures(steps, sentences, calls)
    yield from stated_causes(sentences)
    yield from told_failures(sentences)
    yield from procedures(calls, sentences, steps, state.counts)
    yield from architecture(sentences)
    yield from table_statements(steps)
    yield from manifest_statements(calls)
    yield from gotchas(sentences)
    yield from releases(calls)
    yield from reported_work(sentences)
    yield from open_ends(sentences)
    yield from wrong_calls(calls)


def _clean_candidate(candidate: RuleCandidate, folder: str) -> RuleCandidate:
    """Remove secrets, and make paths relative to the project."""
    return replace(candidate, content=redact(_within_project(candidate.content, folder)).text)


def _within_project(text: str, folder: str) -> str:
    root = folder.rstrip("/\\")
    return text.replace(f"{root}/", "").replace(f"{root}\\", "") if root else text


def _to_item(candidate: RuleCandidate) -> CapturedItem:
    confidence = (
        round(min(1.0, candidate.weight + 0.1), 2) if candidate.confidence is None else candidate.confidence
    )
    words = [word.lower() for word in extract_keywords(candidate.content, MAX_TAGS)]
    return CapturedItem(
        kind=candidate.kind,
        content=candidate.content,
        line=candidate.line,
        tags=tuple(dict.fromkeys([*candidate.tags, *words])),
        supersedes=candidate.supersedes,
        confidence=confidence,
        metadata=candidate.metadata,
    )

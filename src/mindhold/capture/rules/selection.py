"""Runs all rules over a conversation, selects among their candidates, and carries state to the next call."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from mindhold.capture.extracted_items import SIGNS, CapturedItem, ExtractedItems, RuleCandidate
from mindhold.capture.rules.agreements import Offer, agreements
from mindhold.capture.rules.architecture import (
    architecture,
    manifest_statements,
    project_facts,
    table_statements,
)
from mindhold.capture.rules.conventions import corrections, gotchas, preferences, procedures
from mindhold.capture.rules.decisions import MOST_CLAIMS, correct_choices, decisions, own_choices
from mindhold.capture.rules.failures import (
    MAX_OPEN_FAILURES,
    OpenFailure,
    conflicts,
    fixed_failures,
    reported_failures,
    stated_causes,
    told_failures,
    unresolved_failures,
)
from mindhold.capture.rules.korean import korean_statements
from mindhold.capture.rules.progress import commits, open_ends, reported_work
from mindhold.capture.rules.sentences import Sentence, conversation_sentences
from mindhold.capture.rules.tool_calls import deleted_files, tool_calls
from mindhold.engine import Engine
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.embedder import Matrix
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.keywords import extract_keywords
from mindhold.text.pattern import LazyPattern
from mindhold.text.redaction import redact

# Sentences that are worth storing, of each kind.
STATEMENTS = (
    "We use PostgreSQL instead of MongoDB because we need transactions.",
    "The retry logic was moved from the client to the queue worker.",
    "The endpoint should return 404 rather than an empty list.",
    "Let's keep the old flag as an alias and drop it in version 3.",
    "Caching is deliberately left out of the first version.",
    "The build failed because the lock file was out of date; running npm install fixed it.",
    "The crash was caused by a nil pointer when the config file is missing.",
    "Fixed the race condition by locking the session map.",
    "The test failed since the mock returned a string instead of bytes.",
    "The client must be closed before exit, otherwise events are lost.",
    "The parser returns None when the header is missing.",
    "The default timeout is 0, which means it waits forever.",
    "File names are compared case-sensitively on Linux only.",
    "All handlers return a result type instead of throwing.",
    "Test files live next to the code they test and end in _test.go.",
    "The codebase uses factory functions named new_something.",
    "The settings loader lives in src/config.py and merges project and user files.",
    "The API server consists of a router, a service layer and a repository layer.",
    "Sessions are stored in Redis under the key session:<id>.",
    "parse_args reads the command line and calls run.",
    "The frontend uses React with TanStack Query.",
    "Added a --json flag to the export command.",
    "Updated the CI workflow to run on pull requests.",
    "Refactored the session store into its own package.",
    "The migration of the remaining tables still needs to be done.",
    "Removed the unused helper functions from utils.ts.",
)

CHATTER = (
    "Let me check the current state of the file.",
    "Now I'll run the tests to verify the changes.",
    "All tests pass and the linter is clean.",
    "Here's a summary of what I found.",
    "The code looks correct to me.",
    "Would you like me to continue with the next item?",
    "I need to see more context around that line.",
    "That's a good question.",
    "The changes look good and are ready to merge.",
    "Everything works as expected now.",
    "The branch is up to date with main.",
    "I was editing the wrong file.",
    "The output looks right.",
    "Two files were changed.",
)

SURE_WEIGHT = 0.8  # candidates of this weight are not checked again
MIN_WEIGHT = 0.6  # without a model, candidates of less weight are dropped
SAME_WORDS = 0.6  # share of common words from which two say the same
PART_SHARE, PART_WORDS = 0.9, 3  # share and number of words from which one is a part of the other
SAME_MEANING = 0.8  # similarity from which two say the same
CHATTER_COSINE = 0.4  # cosine from which a sentence resembles chatter
CHATTER_MARGIN = 0.06  # how much closer to chatter a kept sentence may be
MAX_PER_LINE = 5
MAX_PER_KIND = 12

_COMMAND = LazyPattern(r"`([^`]+)`")
_ORDER = (
    Kind.PREFERENCE,
    Kind.DECISION,
    Kind.ERROR,
    Kind.GOTCHA,
    Kind.ARCHITECTURE,
    Kind.PATTERN,
    Kind.PROCEDURE,
    Kind.PROGRESS,
    Kind.CONTEXT,
)
_UNSTATED_KINDS = frozenset((Kind.PROCEDURE, Kind.CONTEXT))  # no sentence of chatter is taken for these kinds


async def select_candidates(engine: Engine, candidates: Sequence[RuleCandidate]) -> list[RuleCandidate]:
    """Select the candidates worth storing, in the order of the conversation."""
    ranked = sorted(
        candidates, key=lambda candidate: (-candidate.weight, _ORDER.index(candidate.kind), candidate.line)
    )
    if not ranked:
        return []
    vectors = await engine.vector_source.embed([candidate.content for candidate in ranked])
    examples = await engine.vector_source.embed([*STATEMENTS, *CHATTER]) if vectors is not None else None
    cosines: Matrix | None = None
    if vectors is None or examples is None:
        worthy = [candidate for candidate in ranked if candidate.weight >= MIN_WEIGHT]
    else:
        indexes = [
            index
            for index, candidate in enumerate(ranked)
            if _is_worth_storing(candidate, examples @ vectors[index])
        ]
        worthy = [ranked[index] for index in indexes]
        cosines = vectors[indexes] @ vectors[indexes].T

    def says_same(row: int, column: int) -> bool:
        new, old = worthy[row], worthy[column]
        if _same_words(new, old):
            return True
        if cosines is None or not {new.kind, old.kind}.isdisjoint(_UNSTATED_KINDS):
            return False
        return engine.vector_source.similarity(float(cosines[row, column])) >= SAME_MEANING

    unique: list[int] = []
    for index in range(len(worthy)):
        if not any(says_same(index, other) for other in unique):
            unique.append(index)
    return sorted(_limit([worthy[index] for index in unique]), key=lambda candidate: candidate.line)


def _is_worth_storing(candidate: RuleCandidate, cosines: Matrix) -> bool:
    """Whether it is sure, or closer to a statement than to chatter; `cosines` are those with both."""
    if candidate.weight >= SURE_WEIGHT or candidate.kind in _UNSTATED_KINDS:
        return True
    statement, chatter = float(np.max(cosines[: len(STATEMENTS)])), float(np.max(cosines[len(STATEMENTS) :]))
    return statement + CHATTER_MARGIN > chatter or chatter < CHATTER_COSINE


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
    engine: Engine, steps: Sequence[TranscriptStep], carried: Mapping[str, Any], *, folder: str
) -> ExtractedItems:
    """Extract what is new in these steps; `carried` is the state after the last call for the same conversation."""
    state = RuleState.from_json(carried)
    sentences = list(conversation_sentences(steps))
    was_asked = state.offer is not None and state.offer.question != ""
    candidates = [_clean_candidate(item, folder) for item in _candidates(steps, sentences, state)]
    deleted = deleted_files(steps)
    candidates = [item for item in candidates if not any(name in item.content for name in deleted)]
    selected = correct_choices(
        await select_candidates(engine, candidates), sentences, state.claims, asked=was_asked
    )
    if steps:
        last = max((item.line for item in steps if item.role == Role.USER and not item.aside), default=0)
        state.claims = [item.content for item in selected if item.own and item.line > last]
    items = tuple(_to_item(item) for item in selected if state.is_new(item.content))
    return ExtractedItems(items, state.as_json())


def _candidates(
    steps: Sequence[TranscriptStep], sentences: Sequence[Sentence], state: RuleState
) -> Iterator[RuleCandidate]:
    calls = list(tool_calls(steps))
    agreed, state.offer = agreements(steps, state.offer)
    yield from decisions(sentences, steps, calls, agreed)
    yield from own_choices(sentences)
    yield from preferences(sentences)
    yield from corrections(sentences)
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
    yield from commits(calls)
    yield from reported_work(sentences)
    yield from open_ends(sentences)
    yield from unresolved_failures(state.failures)


def _clean_candidate(candidate: RuleCandidate, folder: str) -> RuleCandidate:
    """Remove secrets, and make paths relative to the project."""
    text = candidate.content
    if folder:
        root = folder.rstrip("/\\")
        text = text.replace(f"{root}/", "").replace(f"{root}\\", "")
    return replace(candidate, content=redact(text).text)


def _to_item(candidate: RuleCandidate) -> CapturedItem:
    words = [word.lower() for word in extract_keywords(candidate.content, MAX_TAGS)]
    return CapturedItem(
        kind=candidate.kind,
        content=candidate.content,
        line=candidate.line,
        tags=tuple(dict.fromkeys([*candidate.tags, *words])),
        supersedes=candidate.supersedes,
        confidence=round(min(1.0, candidate.weight + 0.1), 2),
        metadata=candidate.metadata,
    )

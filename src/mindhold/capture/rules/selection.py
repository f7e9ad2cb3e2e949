"""Runs all rules over a conversation, selects among their candidates, and carries state to the next call."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from mindhold.capture.items import SIGNS, CapturedItem, ExtractedItems, RuleCandidate
from mindhold.capture.rules.agreements import Offer, agreements
from mindhold.capture.rules.architecture import architecture, stack, surroundings, table_statements
from mindhold.capture.rules.conventions import corrections, gotchas, preferences, procedures
from mindhold.capture.rules.decisions import MOST_CLAIMS, correct_choices, decisions, own_choices
from mindhold.capture.rules.failures import (
    MOST_OPEN,
    OpenFailure,
    conflicts,
    fixed_failures,
    mishaps,
    open_failures,
    reported_failures,
    stated_causes,
)
from mindhold.capture.rules.korean import stated_in_korean
from mindhold.capture.rules.progress import committed, finished, open_ends
from mindhold.capture.rules.sentences import Sentence, sentences
from mindhold.capture.rules.tool_calls import deleted_files, tool_calls
from mindhold.engine import Engine
from mindhold.memories.reflect import OPEN_QUESTION
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.embedder import Matrix
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.keywords import extract_keywords
from mindhold.text.pattern import LazyPattern
from mindhold.text.redaction import redact

PROTOTYPES: Mapping[Kind, tuple[str, ...]] = {
    Kind.DECISION: (
        "We use PostgreSQL instead of MongoDB because we need transactions.",
        "The retry logic was moved from the client to the queue worker.",
        "The endpoint should return 404 rather than an empty list.",
        "Let's keep the old flag as an alias and drop it in version 3.",
        "Caching is deliberately left out of the first version.",
    ),
    Kind.ERROR: (
        "The build failed because the lock file was out of date; running npm install fixed it.",
        "The crash was caused by a nil pointer when the config file is missing.",
        "Fixed the race condition by locking the session map.",
        "The test failed since the mock returned a string instead of bytes.",
    ),
    Kind.GOTCHA: (
        "The client must be closed before exit, otherwise events are lost.",
        "The parser returns None when the header is missing.",
        "The default timeout is 0, which means it waits forever.",
        "File names are compared case-sensitively on Linux only.",
    ),
    Kind.PATTERN: (
        "All handlers return a result type instead of throwing.",
        "Test files live next to the code they test and end in _test.go.",
        "The codebase uses factory functions named new_something.",
    ),
    Kind.ARCHITECTURE: (
        "The settings loader lives in src/config.py and merges project and user files.",
        "The API server consists of a router, a service layer and a repository layer.",
        "Sessions are stored in Redis under the key session:<id>.",
        "parse_args reads the command line and calls run.",
        "The frontend uses React with TanStack Query.",
    ),
    Kind.PROGRESS: (
        "Added a --json flag to the export command.",
        "Updated the CI workflow to run on pull requests.",
        "Refactored the session store into its own package.",
        "The migration of the remaining tables still needs to be done.",
        "Removed the unused helper functions from utils.ts.",
    ),
}

CHATTER: tuple[str, ...] = (
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

SURE = 0.8  # candidates of this weight are not looked at again
LEAST = 0.6  # the weight below which one is dropped that no model speaks for
SAME_WORDS = 0.6  # share of words from which two say the same
WITHIN, FEWEST = 0.9, 3  # share of its words, and their number, that make one a part of another
SAME_MEANING = 0.8  # similarity from which they do
TALK = 0.4  # cosine from which a sentence is like talk at all
DOUBT = 0.06  # by how much it may be more like talk and still stay
MOST_OF_A_LINE = 5
MOST_OF_A_KIND = 12

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
_NOT_SAID = frozenset((Kind.PROCEDURE, Kind.CONTEXT))  # no sentence of talk is taken for one of them


async def select_candidates(engine: Engine, candidates: Sequence[RuleCandidate]) -> list[RuleCandidate]:
    """In the order of the conversation."""
    ranked = sorted(candidates, key=lambda one: (-one.weight, _ORDER.index(one.kind), one.line))
    if not ranked:
        return []
    vectors = await engine.vector_source.embed([one.content for one in ranked])
    bank = await _bank(engine) if vectors is not None else None
    if vectors is None or bank is None:
        kept = _unrepeated([one for one in ranked if one.weight >= LEAST], _by_words)
    else:
        telling = [index for index, one in enumerate(ranked) if _tells(one, vectors[index], bank)]
        alike = vectors[telling] @ vectors[telling].T

        def same(one: int, two: int, new: RuleCandidate, old: RuleCandidate) -> bool:
            if _by_words(one, two, new, old):
                return True
            said = {new.kind, old.kind}.isdisjoint(_NOT_SAID)
            return said and engine.vector_source.similarity(float(alike[one, two])) >= SAME_MEANING

        kept = _unrepeated([ranked[index] for index in telling], same)
    return sorted(_not_too_many(kept), key=lambda one: one.line)


def _tells(one: RuleCandidate, vector: Matrix, bank: dict[Kind | None, Matrix]) -> bool:
    """Whether it is sure, or more like a sentence of any kind than like talk."""
    if one.weight >= SURE or one.kind in _NOT_SAID:
        return True
    talk = float(np.max(bank[None] @ vector))
    own = max(float(np.max(rows @ vector)) for kind, rows in bank.items() if kind is not None)
    return own + DOUBT > talk or talk < TALK


async def _bank(engine: Engine) -> dict[Kind | None, Matrix] | None:
    matrix = await engine.vector_source.embed(
        [text for own in PROTOTYPES.values() for text in own] + list(CHATTER)
    )
    if matrix is None:
        return None
    bank: dict[Kind | None, Matrix] = {}
    start = 0
    for kind, own in PROTOTYPES.items():
        bank[kind] = matrix[start : start + len(own)]
        start += len(own)
    bank[None] = matrix[start:]
    return bank


Same = Callable[[int, int, RuleCandidate, RuleCandidate], bool]


def _unrepeated(ranked: Sequence[RuleCandidate], same: Same) -> list[RuleCandidate]:
    kept: list[tuple[int, RuleCandidate]] = []
    for index, one in enumerate(ranked):
        if not any(same(index, other, one, two) for other, two in kept):
            kept.append((index, one))
    return [one for _, one in kept]


def _by_words(_one: int, _two: int, new: RuleCandidate, kept: RuleCandidate) -> bool:
    if new.kind == Kind.PROCEDURE or kept.kind == Kind.PROCEDURE:
        return new.kind == kept.kind and _COMMAND.findall(new.content) == _COMMAND.findall(kept.content)
    if not set(new.metadata.get(SIGNS, ())).isdisjoint(kept.metadata.get(SIGNS, ())):
        return True
    fresh, known = _words(new.content), _words(kept.content)
    both = len(fresh & known)
    if not both:
        return False
    return (both >= FEWEST and both >= WITHIN * len(fresh)) or both >= SAME_WORDS * len(fresh | known)


@lru_cache(1_024)
def _words(text: str) -> frozenset[str]:
    return frozenset(lexemes(text)) - stop_lexemes()


def _not_too_many(kept: Sequence[RuleCandidate]) -> list[RuleCandidate]:
    """The surest of each turn and of each kind."""
    lines: Counter[int] = Counter()
    kinds: Counter[Kind] = Counter()
    found: list[RuleCandidate] = []
    for one in kept:
        if lines[one.line] < MOST_OF_A_LINE and kinds[one.kind] < MOST_OF_A_KIND:
            lines[one.line] += 1
            kinds[one.kind] += 1
            found.append(one)
    return found


MOST_SEEN = 150
MOST_COUNTED = 30


@dataclass(slots=True)
class RuleState:
    """`seen` are short hashes of what was picked out before; `counts` how often commands succeeded.

    `offer` is what the assistant put to the person last, `claims` what it said last that it chose by itself.
    """

    troubles: list[OpenFailure] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    offer: Offer | None = None
    claims: list[str] = field(default_factory=list)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RuleState:
        """What can't be understood is as if it weren't there."""
        try:
            return cls(
                troubles=[OpenFailure.from_json(one) for one in value.get("troubles", ())],
                seen=[str(one) for one in value.get("seen", ())],
                counts={str(name): int(count) for name, count in dict(value.get("counts", {})).items()},
                offer=Offer.from_json(value["offer"]) if value.get("offer") else None,
                claims=[str(one) for one in value.get("claims", ())],
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls()

    def as_json(self) -> dict[str, Any]:
        counts = dict(list(self.counts.items())[-MOST_COUNTED:])
        told: dict[str, Any] = {
            "troubles": [one.as_json() for one in self.troubles[-MOST_OPEN:]],
            "seen": self.seen[-MOST_SEEN:],
            "counts": counts,
        }
        if self.offer:
            told["offer"] = self.offer.as_json()
        if self.claims:
            told["claims"] = self.claims[:MOST_CLAIMS]
        return told

    def is_new(self, content: str) -> bool:
        """Whether it was not picked out before; from now on it was."""
        mark = hashlib.sha256(content.casefold().encode()).hexdigest()[:10]
        if mark in self.seen:
            return False
        self.seen.append(mark)
        return True


MOST_TAGS = 4


async def extract_by_rules(
    engine: Engine, steps: Sequence[TranscriptStep], carried: Mapping[str, Any], *, folder: str
) -> ExtractedItems:
    """What is new in these steps; `carried` is what the call before gave for the same conversation."""
    state = RuleState.from_json(carried)
    said = list(sentences(steps))
    asked = state.offer is not None and state.offer.question != ""
    candidates = [_safe(one, folder) for one in _candidates(steps, said, state)]
    gone = deleted_files(steps)
    candidates = [one for one in candidates if not any(name in one.content for name in gone)]
    kept = correct_choices(await select_candidates(engine, candidates), said, state.claims, asked=asked)
    if steps:
        last = max((one.line for one in steps if one.role == Role.USER and not one.aside), default=0)
        state.claims = [one.content for one in kept if one.own and one.line > last]
    items = tuple(_item(one) for one in kept if state.is_new(one.content))
    return ExtractedItems(items, state.as_json())


def _candidates(
    steps: Sequence[TranscriptStep], said: Sequence[Sentence], state: RuleState
) -> Iterator[RuleCandidate]:
    done = list(tool_calls(steps))
    agreed, state.offer = agreements(steps, state.offer)
    yield from decisions(said, steps, done, agreed)
    yield from own_choices(said)
    yield from preferences(said)
    yield from corrections(said)
    yield from surroundings(said)
    yield from stated_in_korean(said)
    yield from fixed_failures(done, said, state.troubles)
    yield from conflicts(done, said)
    yield from reported_failures(steps, said, done)
    yield from stated_causes(said)
    yield from mishaps(said)
    yield from procedures(done, said, steps, state.counts)
    yield from architecture(said)
    yield from table_statements(steps)
    yield from stack(done)
    yield from gotchas(said)
    yield from committed(done)
    yield from finished(said)
    yield from open_ends(said)
    for trouble, text in open_failures(state.troubles):
        if not trouble.reported:
            trouble.reported = text
            yield RuleCandidate(Kind.PROGRESS, text, trouble.line, 0.8, tags=(OPEN_QUESTION,))


def _safe(candidate: RuleCandidate, folder: str) -> RuleCandidate:
    """Without secrets, and with paths as they are inside the project."""
    text = candidate.content
    if folder:
        root = folder.rstrip("/\\")
        text = text.replace(f"{root}/", "").replace(f"{root}\\", "")
    return replace(candidate, content=redact(text).text)


def _item(candidate: RuleCandidate) -> CapturedItem:
    words = [word.lower() for word in extract_keywords(candidate.content, MOST_TAGS)]
    return CapturedItem(
        kind=candidate.kind,
        content=candidate.content,
        line=candidate.line,
        tags=tuple(dict.fromkeys([*candidate.tags, *words])),
        supersedes=candidate.supersedes,
        confidence=round(min(1.0, candidate.weight + 0.1), 2),
        metadata=candidate.metadata,
    )

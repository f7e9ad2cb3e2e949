"""What readers said of the candidates of real conversations, and which candidate a kept memory is.

`extraction/labels/PROJECT.json` has no sentence of a conversation: a project's public repository, and for each conversation the name
of its file, the marks of judged candidates and those that say what a reader noted as worth having. A mark is a hash of the words
of a candidate that carry its meaning. The conversations are found by name; a checkpoint's `full.jsonl` has its session's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mindhold.capture.candidates import Candidate
from mindhold.model.lexemes import lexemes, stop_lexemes

LABELS = Path(__file__).resolve().parent / "extraction" / "labels"
TYPED = LABELS.with_name("typed")  # of other conversations only what people typed is judged
GOOD, MARGINAL, BAD, FALSE = "good", "marginal", "bad", "false"
SHARED_FOLDERS = ("transcripts", "transcripts-2")  # of MINDHOLD_BENCH_DATA
NEAR = 3  # lines between a memory and a candidate that is not the same word by word
SAME_NEAR, SAME_ANYWHERE = 0.6, 0.75  # share of common words from which a memory is a candidate
SAYS = 0.6  # share of the words of a candidate from which a memory says it


@dataclass(frozen=True, slots=True)
class Judged:
    """What a reader said of a candidate; `kind` is that of a good one."""

    line: int
    label: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Noted:
    """Something that a reader wants kept; `wish`: the person's, meant to last. `marks` are the candidates that say it."""

    line: int
    wish: bool
    marks: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A judged conversation: its repository, its file's name without the ending, and judged candidates by mark."""

    repository: str
    file: str
    judged: Mapping[str, Judged]
    noted: tuple[Noted, ...]


@dataclass(frozen=True, slots=True)
class Picked:
    """What was kept of a conversation, with the line that it cites."""

    file: str
    line: int
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """On one memory. `label` is None if no reader saw such a candidate; `found` are indexes of what it says of the noted."""

    picked: Picked
    label: str | None
    found: frozenset[int]


@dataclass(frozen=True, slots=True)
class Wordings:
    """Lines and texts of a conversation's candidates as they are built today, by mark: a label itself has no text."""

    lines: Mapping[str, int]
    texts: Mapping[str, str]

    @classmethod
    def of(cls, candidates: Iterable[Candidate]) -> Wordings:
        first: dict[str, Candidate] = {}
        for candidate in candidates:
            first.setdefault(mark(candidate.content), candidate)
        return cls(
            {own: candidate.line for own, candidate in first.items()},
            {own: candidate.content for own, candidate in first.items()},
        )


@lru_cache(100_000)
def meaning(content: str) -> frozenset[str]:
    """The words of a text that carry its meaning; all of them if none does."""
    words = frozenset(lexemes(content))
    return words - stop_lexemes() or words


def mark(content: str) -> str:
    """A short hash of the words that carry the meaning: it survives another punctuation, order or article."""
    words = meaning(content) or {content.casefold()}
    return hashlib.sha256(" ".join(sorted(words)).encode()).hexdigest()[:10]


def read_labels(folder: Path = LABELS) -> list[Conversation]:
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    return [
        _conversation(content["repository"], each)
        for content in contents
        for each in content["conversations"]
    ]


def _conversation(repository: str, each: Mapping[str, Any]) -> Conversation:
    return Conversation(
        repository,
        each["file"],
        {own: Judged(line, *rest) for line, own, *rest in each["candidates"]},
        tuple(Noted(one["line"], one["wish"], frozenset(one["marks"])) for one in each["noted"]),
    )


def found_files(data: Path, others: Sequence[Path]) -> dict[str, Path]:
    """The transcripts by name: those of the data, and those below the other folders."""
    found = {file.stem: file for folder in others for file in sorted(folder.rglob("*.jsonl"))}
    return found | {
        file.stem: file for folder in SHARED_FOLDERS for file in sorted((data / folder).glob("*.jsonl"))
    }


def judge(picked: Sequence[Picked], conversation: Conversation, wordings: Wordings) -> list[Verdict]:
    return [_verdict(one, conversation, wordings) for one in picked]


def _verdict(picked: Picked, conversation: Conversation, wordings: Wordings) -> Verdict:
    own, words = mark(picked.content), meaning(picked.content)
    known = _same(picked.line, own, words, conversation, wordings)
    found = {
        index
        for index, noted in enumerate(conversation.noted)
        if own in noted.marks
        or known in noted.marks
        or any(_says(words, wordings.texts.get(each, "")) for each in noted.marks)
    }
    return Verdict(picked, conversation.judged[known].label if known else None, frozenset(found))


def _same(
    line: int, own: str, words: frozenset[str], conversation: Conversation, wordings: Wordings
) -> str | None:
    """The mark of the judged candidate that a memory is."""
    if own in conversation.judged:
        return own
    best, most = None, 0.0
    for each, content in wordings.texts.items():
        others = meaning(content)
        if each in conversation.judged and words & others:
            share = len(words & others) / len(words | others)
            near = abs(wordings.lines[each] - line) <= NEAR
            if share >= (SAME_NEAR if near else SAME_ANYWHERE) and share > most:
                best, most = each, share
    return best


def _says(words: frozenset[str], content: str) -> bool:
    wanted = meaning(content)
    return bool(wanted) and len(words & wanted) >= SAYS * len(wanted)

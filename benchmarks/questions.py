"""Sets of questions with known answers: LoCoMo's conversations, BEAM's chats, and our own facts, in one shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FACTS = Path(__file__).parent / "facts"
ADVERSARIAL = "adversarial"
_MARK = re.compile(r"\s*->->\s*[\d,]+\s*$")  # BEAM's own, at the end of a message


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the memories that answer it, by their place in the pool; none if nothing does."""

    text: str
    answers: frozenset[int]
    category: str


@dataclass(frozen=True, slots=True)
class Pool:
    """Memories that are searched together, and what is asked of them. Facts have no conversations."""

    of: str  # the set
    name: str
    texts: Sequence[str]
    conversations: Sequence[str | None]
    positions: Sequence[int]
    questions: Sequence[Question]
    occurred: Sequence[datetime] = ()  # if known


def locomo(path: Path) -> Iterator[Pool]:
    """Conversations of two people; adversarial questions, whose evidence answers something else, are left out."""
    for document in _read(path):
        turns = document["turns"]
        places = {turn["id"]: place for place, turn in enumerate(turns)}
        sessions = [str(turn["session"]) for turn in turns]
        yield Pool(
            of="LoCoMo",
            name=document["conversation"],
            texts=[f"{turn['speaker']}: {turn['text']}" for turn in turns],
            conversations=sessions,
            positions=_positions(sessions),
            occurred=[moment(turn["when"]) for turn in turns],
            questions=[
                Question(
                    one["question"], frozenset(places[turn] for turn in one["evidence"]), one["category"]
                )
                for one in document["questions"]
                if one["category"] != ADVERSARIAL and places.keys() >= set(one["evidence"])
            ],
        )


def beam(folder: Path, numbers: Sequence[int]) -> Iterator[Pool]:
    """Chats of a user with an assistant, from a checkout of BEAM; questions to abstain from have no answer."""
    for number in numbers:
        chat = folder / "chats" / "100K" / str(number)
        messages, sessions = [], []
        for batch in _read(chat / "chat.json"):
            for message in (message for group in batch["turns"] for message in group):
                messages.append(message)
                sessions.append(str(batch["batch_number"]))
        places = {message["id"]: place for place, message in enumerate(messages)}
        asked: dict[str, list[dict[str, Any]]] = _read(chat / "probing_questions" / "probing_questions.json")
        questions = []
        for category, group in asked.items():
            for one in group:
                sources = frozenset(
                    places[each] for each in _flat(one.get("source_chat_ids", [])) if each in places
                )
                if category == "abstention" or sources:
                    answers = frozenset() if category == "abstention" else sources
                    questions.append(Question(one["question"], answers, category))
        yield Pool(
            of="BEAM",
            name=f"chat {number}",
            texts=[f"{message['role']}: {_MARK.sub('', message['content'])}" for message in messages],
            conversations=sessions,
            positions=_positions(sessions),
            questions=questions,
        )


def facts(folder: Path = FACTS, *, languages: Sequence[str] = ("en",)) -> Iterator[Pool]:
    """Our own: facts that crowd each other, a third of the questions without an answer."""
    for path in sorted(folder.glob("*.json")):
        document = _read(path)
        if document["language"] not in languages:
            continue
        stored = document["facts"]
        places = {fact["id"]: place for place, fact in enumerate(stored)}
        yield Pool(
            of=f"facts: {path.stem}",
            name=path.stem,
            texts=[fact["text"] for fact in stored],
            conversations=[None] * len(stored),
            positions=[-1] * len(stored),
            questions=[
                Question(one["question"], frozenset(places[fact] for fact in one["answers"]), one["overlap"])
                for one in document["questions"]
            ],
        )


def moment(when: str) -> datetime:
    """ "1:56 pm on 8 May, 2023"."""
    return datetime.strptime(re.sub(r"\s+", " ", when).strip().upper(), "%I:%M %p ON %d %B, %Y").replace(
        tzinfo=UTC
    )


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _positions(sessions: Sequence[str]) -> list[int]:
    """The place of each message in its conversation."""
    counts: dict[str, int] = {}
    positions = []
    for session in sessions:
        positions.append(counts.get(session, 0))
        counts[session] = positions[-1] + 1
    return positions


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [each for inner in value.values() for each in _flat(inner)]
    if isinstance(value, list):
        return [each for inner in value for each in _flat(inner)]
    return [value]

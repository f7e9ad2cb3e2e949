"""Sets of questions with known answers, in one shape: conversations of LoCoMo, REALTALK, BEAM and MemSim, and our own facts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FACTS = Path(__file__).parent / "facts"
ADVERSARIAL = "adversarial"
PARALLEL = "parallel"  # the same facts and questions in several languages
ASKED_IN = " asked in "
_MARK = re.compile(r"\s*->->\s*[\d,]+\s*$")  # BEAM's own, at the end of a message
_TURNS = re.compile(r"D ?(\d+)[:;](\d+)(?:-D\1:(\d+))?")  # REALTALK's "D3:5", and "D3:5-D3:9"
MEMSIM_KINDS = ("simple", "conditional", "comparative", "aggregative", "post_processing", "noisy")
MEMSIM_SAMPLE = 50  # questions of a kind


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


def realtalk(folder: Path) -> Iterator[Pool]:
    """Real chats of two people over three weeks, from a checkout of REALTALK.

    Evidence that names messages which the chat doesn't have is left out, and a question whose evidence is all of that kind.
    """
    for path in sorted((folder / "data").glob("*.json")):
        document = _read(path)
        turns, sessions = [], []
        for name in (name for name in document if re.fullmatch(r"session_\d+", name)):
            turns += document[name]
            sessions += [name] * len(document[name])
        places = {turn["dia_id"]: place for place, turn in enumerate(turns)}
        questions = []
        for one in document["qa"]:
            answers = frozenset(places[each] for each in _named_turns(one["evidence"]) if each in places)
            if answers:
                questions.append(Question(one["question"], answers, str(one["category"])))
        yield _once(
            Pool(
                of="REALTALK",
                name=path.stem,
                texts=[f"{turn['speaker']}: {turn['clean_text']}" for turn in turns],
                conversations=sessions,
                positions=_positions(sessions),
                occurred=[
                    datetime.strptime(turn["date_time"], "%d.%m.%Y, %H:%M:%S").replace(tzinfo=UTC)
                    for turn in turns
                ],
                questions=questions,
            )
        )


def _named_turns(evidence: Sequence[str]) -> Iterator[str]:
    for session, first, last in _TURNS.findall(" ".join(evidence)):
        for turn in range(int(first), int(last or first) + 1):
            yield f"D{session}:{turn}"


def memsim(folder: Path) -> Iterator[Pool]:
    """Chinese messages of a user about people and events, from a checkout of MemSim: a pool for each kind of question.

    A trajectory has ten messages and one question, so fifty are searched together.
    """
    for number, kind in enumerate(MEMSIM_KINDS, 1):
        paths = (folder / "data_generation" / "final_dataset" / "messages_and_QAs").glob(
            f"{number:02}_*.json"
        )
        whole = [one for path in sorted(paths) for one in _read(path)]
        asked = [one for one in whole if "[ERROR" not in str(one["question_list"])]
        texts: list[str] = []
        sessions, times, questions = [], [], []
        for place, one in enumerate(asked[:: max(1, len(asked) // MEMSIM_SAMPLE)][:MEMSIM_SAMPLE]):
            question = one["question_list"][0]
            answers = frozenset(len(texts) + step for step in question["target_step_id"])
            questions.append(Question(question["question"], answers, kind))
            texts += [message["message"] for message in one["message_list"]]
            sessions += [str(place)] * len(one["message_list"])
            times += [_chinese_moment(message["time"]) for message in one["message_list"]]
        if questions:
            yield _once(
                Pool(
                    of="MemSim",
                    name=kind,
                    texts=texts,
                    conversations=sessions,
                    positions=_positions(sessions),
                    occurred=times,
                    questions=questions,
                )
            )


def _once(pool: Pool) -> Pool:
    """Without the texts that were said before in the pool, as a memory is stored once."""
    firsts = {content: place for place, content in reversed(list(enumerate(pool.texts)))}
    rows = sorted(firsts.values())
    places = {pool.texts[row]: place for place, row in enumerate(rows)}
    return replace(
        pool,
        texts=[pool.texts[row] for row in rows],
        conversations=[pool.conversations[row] for row in rows],
        positions=[pool.positions[row] for row in rows],
        occurred=[pool.occurred[row] for row in rows],
        questions=[
            replace(one, answers=frozenset(places[pool.texts[row]] for row in one.answers))
            for one in pool.questions
        ],
    )


def facts(folder: Path = FACTS, *, languages: Sequence[str] = ("en",)) -> Iterator[Pool]:
    """Our own: facts that crowd each other, a third of the questions without an answer."""
    for path in sorted(folder.glob("*.json")):
        if _read(path)["language"] in languages:
            yield facts_of(path)


def facts_of(path: Path, *, asked_in: Path | None = None) -> Pool:
    """The facts of one file, and its questions; or those of another file with the same ids, in another language."""
    document = _read(path)
    stored = document["facts"]
    places = {fact["id"]: place for place, fact in enumerate(stored)}
    name = path.stem if asked_in is None else f"{path.stem}{ASKED_IN}{_read(asked_in)['language']}"
    return Pool(
        of=f"facts: {name}",
        name=name,
        texts=[fact["text"] for fact in stored],
        conversations=[None] * len(stored),
        positions=[-1] * len(stored),
        questions=[
            Question(one["question"], frozenset(places[fact] for fact in one["answers"]), one["overlap"])
            for one in (document if asked_in is None else _read(asked_in))["questions"]
        ],
    )


def across_languages(
    folder: Path = FACTS, *, asked: Sequence[str] = ("de", "ja", "ko", "zh")
) -> Iterator[Pool]:
    """The English parallel facts, asked in other languages."""
    for language in asked:
        yield facts_of(folder / f"{PARALLEL}-en.json", asked_in=folder / f"{PARALLEL}-{language}.json")


def moment(when: str) -> datetime:
    """ "1:56 pm on 8 May, 2023"."""
    return datetime.strptime(re.sub(r"\s+", " ", when).strip().upper(), "%I:%M %p ON %d %B, %Y").replace(
        tzinfo=UTC
    )


def _chinese_moment(when: str) -> datetime:
    """ "2024年04月01日 周一 08:39"."""
    day, _, time = when.split()
    return datetime.strptime(f"{day} {time}", "%Y年%m月%d日 %H:%M").replace(tzinfo=UTC)


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

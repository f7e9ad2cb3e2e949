"""What is told of a conversation that was found: its name, and the words in it that answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from mindhold.engine.core import Engine
from mindhold.engine.history.answering import Statement, answering, concludes
from mindhold.engine.history.excerpt import LONGEST_SUMMARY, LONGEST_TITLE, excerpt_of, shown, shown_first
from mindhold.engine.history.finding import Looked
from mindhold.engine.history.known import last_moment
from mindhold.engine.history.places import worked_in
from mindhold.engine.history.ranking import Ranked, held_in, relevance, unlike
from mindhold.engine.history.remembered import ARCHIVE, TRANSCRIPT, Found
from mindhold.engine.timeframe import Timeframe
from mindhold.model.lexemes import lexemes
from mindhold.ports.history import Conversation, Passage, Utterance
from mindhold.ports.transcripts import Role

MOST_FURTHER = 8  # passages behind the one that was found that may have the answer
MOST_STANDING = 10  # passages that may have the words of a head
MOST_HELD = 40  # conversations that may be of a time
NOTES = ("session-memory", "summary.md")  # beside a transcript


@dataclass(frozen=True, slots=True)
class Reach:
    """The conversations that are asked: by their rows, and the one that speaks for each session."""

    rows: Mapping[int, Conversation]
    sessions: Mapping[str, Conversation]
    narrowed: bool


def of_index(engine: Engine, looked: Looked, reach: Reach, *, how: bool, limit: int) -> list[Found]:
    """The best of what the index found; `how`: the question wants to know how it was resolved. Blocks."""
    answers = unlike(one for one in looked.found if one.answers)
    told = (_of_ranked(engine, looked, one, reach, how=how) for one in answers)
    return list(islice((one for one in told if one is not None), limit))


def of_period(engine: Engine, looked: Looked, reach: Reach) -> list[Found]:
    """What was held in the time that the question asks for, the newest first, of so many that may have been. Blocks."""
    period = looked.asked.period
    if period is None:
        return []
    sessions: dict[str, list[Conversation]] = {}
    for one in reach.rows.values():
        begun = period.end is None or one.started is None or one.started < period.end
        if begun and (period.start is None or last_moment(one) >= period.start):
            sessions.setdefault(one.belongs_to, []).append(one)
    newest = sorted(sessions.values(), key=lambda held: max(map(last_moment, held)), reverse=True)
    told: list[Found] = []
    for held in newest[:MOST_HELD]:
        held.sort(key=lambda one: bool(one.part_of))
        found = (_of_time(engine, one, reach, period) for one in held)
        told += islice((one for one in found if one is not None), 1)
    return sorted(told, key=lambda one: one.timestamp, reverse=True)


def named(engine: Engine, session: Conversation) -> tuple[str, str]:
    """What it is called everywhere, and what it is summed up as."""
    title = shown(engine, session.title.text, LONGEST_TITLE)
    return title, shown_first(engine, session.summary.text, session.title.text, longest=LONGEST_SUMMARY)


def found_in(
    engine: Engine,
    conversation: Conversation,
    reach: Reach,
    *,
    timestamp: datetime,
    relevance: str,
    excerpt: str,
    score: float,
    line: int | None,
    file: str = "",
) -> Found:
    """What stands there, with the conversation that it belongs to."""
    session = reach.sessions[conversation.belongs_to]
    title, summary = named(engine, session)
    return Found(
        session_id=conversation.belongs_to,
        project=worked_in(session),
        summary=summary,
        title=title,
        agent=conversation.source,
        timestamp=timestamp,
        relevance=relevance,
        excerpt=excerpt,
        source=ARCHIVE if conversation.gone else TRANSCRIPT,
        score=score,
        file=file or str(conversation.file),
        line=line,
    )


def _of_ranked(engine: Engine, looked: Looked, one: Ranked, reach: Reach, *, how: bool) -> Found | None:
    conversation, wanted = one.best.conversation, looked.asked.lexemes
    statement = _statement(engine, looked, one, how=how)
    if statement is None:
        return None  # nobody said anything in it
    said = statement.said
    excerpt = excerpt_of(engine, _spoken(said), wanted, place=statement.place)
    file, line = (str(conversation.file), said.line) if said.line else _place_of_note(engine, one, wanted)
    similarity = None if math.isnan(one.likeness) else engine.meaning.similarity(one.likeness)
    return found_in(
        engine,
        conversation,
        reach,
        timestamp=said.timestamp or last_moment(conversation),
        relevance=relevance(looked.asked, one, similarity),
        excerpt=excerpt,
        score=one.score,
        file=file,
        line=line,
    )


def _statement(engine: Engine, looked: Looked, one: Ranked, *, how: bool) -> Statement | None:
    """The words that answer; of a head, which stands nowhere in the file, only where nothing else has most of them."""
    wanted, best, row = frozenset(looked.asked.lexemes), one.best, one.best.row
    if best.passage.head:
        standing, most = _standing(engine, one, wanted)
        told = len(wanted.intersection(best.passage.lexemes.split()))
        if standing is None or (4 * most < 3 * told and _says_more(best.conversation)):
            return answering([best.passage.utterances], wanted, how=False)
        row = standing
    present = looked.present
    window = _window(engine.history.passages_from(row, most=1 + MOST_FURTHER), further=how)
    heard = [
        [said for said in passage.utterances if present is None or not present.has(said, best.conversation)]
        for passage in window
    ]
    return answering(heard, wanted, how=how)


def _standing(engine: Engine, one: Ranked, wanted: frozenset[str]) -> tuple[int | None, int]:
    """The passage of a conversation that has most of the words, and how many; its first, where none has any."""
    index, row = engine.history, one.best.conversation.row
    found = index.passages(
        [match.passage for match in index.search(tuple(wanted), among=[row], limit=MOST_STANDING)]
    )
    counts = {
        number: len(wanted.intersection(passage.lexemes.split()))
        for number, passage in found.items()
        if not passage.head
    }
    if counts:
        best = max(counts, key=lambda number: (counts[number], -number))
        return best, counts[best]
    heard = [other.row for other in one.heard if other.conversation.row == row and not other.passage.head]
    first = heard or [number for number, passage in index.passages_of(row) if not passage.head]
    return (first[0], 0) if first else (None, 0)


def _says_more(one: Conversation) -> bool:
    """Whether its head has words that nobody said in it."""
    return bool(one.note_modified) or one.title.by != "made" or one.summary.by != "made"


def _window(passages: Sequence[Passage], *, further: bool) -> Iterator[Passage]:
    """The first, and what follows it: up to the next prompt, or `further`."""
    for number, passage in enumerate(passages[: 1 + MOST_FURTHER]):
        begins = bool(passage.utterances) and passage.utterances[0].role is Role.USER
        if number and begins and not further:
            return
        yield passage


def _place_of_note(engine: Engine, one: Ranked, wanted: Sequence[str]) -> tuple[str, int]:
    """Where the words of a head stand: in the notes beside the file, else nowhere, and then its beginning must do."""
    conversation = one.best.conversation
    file = conversation.file.with_suffix("").joinpath(*NOTES)
    lines = engine.transcripts.note(conversation.file).splitlines() if conversation.note_modified else []
    counts = [len(set(wanted).intersection(lexemes(line))) for line in lines]
    if any(counts) and file.is_file():
        return str(file), counts.index(max(counts)) + 1
    return str(conversation.file), 1


def _of_time(engine: Engine, one: Conversation, reach: Reach, period: Timeframe) -> Found | None:
    """Told by the last that came of something then, else by the first request."""
    ended = engine.history.last_passage(one.row) if held_in(period, one.ended) else None
    passages = [ended] if ended else [passage for _, passage in engine.history.passages_of(one.row)]
    said = [
        utterance
        for passage in passages
        for utterance in passage.utterances
        if not passage.head and held_in(period, utterance.timestamp or one.ended or last_moment(one))
    ]
    if not said:
        return None
    chosen = next((each for each in reversed(said) if concludes(each)), None)
    chosen = chosen or next((each for each in said if each.role is Role.USER), said[0])
    return found_in(
        engine,
        one,
        reach,
        timestamp=max((each.timestamp for each in said if each.timestamp), default=last_moment(one)),
        relevance=f"time: {period.phrase}",
        excerpt=excerpt_of(engine, _spoken(chosen), ()),
        score=1.0,
        line=max(chosen.line, 1),
    )


def _spoken(said: Utterance) -> str:
    """A command or an output is told with the tool that it is of."""
    return f"{said.tool}: {said.text}" if said.tool else said.text

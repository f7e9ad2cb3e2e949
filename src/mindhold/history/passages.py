"""The passages, title and summary that the index keeps of a conversation, and their vectors."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import blake2b
from math import inf
from pathlib import Path
from platform import node
from typing import NamedTuple

from pydantic import Field

from mindhold.engine import Engine
from mindhold.history.index_guard import index_turn
from mindhold.model.job import Job
from mindhold.model.lexemes import LexemeCache, stop_lexemes
from mindhold.model.scope import LOCAL
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.history import ConversationLabel, HistoryIndex, IndexedConversation, IndexedStep, Passage
from mindhold.ports.store import Enqueue
from mindhold.ports.transcripts import Role, Transcripts, TranscriptStep, beginning, shortened
from mindhold.text.clean import clean, split
from mindhold.text.noise import is_noise
from mindhold.text.pattern import LazyPattern
from mindhold.text.redaction import redact

LONGEST = 300  # characters
_LONGEST_BEGINNING = 160  # characters of an output's beginning if it has a telling line too, or is a file
_LOOKED_AT = 1_500  # characters of an output's beginning that are used
_LONGEST_LINE = 1_000
# Tools whose output is a file's content: only which file it is matters.
_FILES = ("Read", "NotebookRead", "Grep", "Glob", "LS")
_COMMANDS = ("Bash", "PowerShell")
_NAMES = ("Error", "Exception", "anic", "atal")  # in a line that names an error
_NAMED = LazyPattern(r"\s*(?:E\s+)?(?:[\w.$:]*(?:Error|Exception|[Pp]anic)\b[^\n:]{0,80}:|fatal:)")
_SIGNS = (*_NAMES, "rror:", "FAIL", "enied", "not found", "No such", "ERR!")
_MOST_TRIED = 20  # lines that are tried as the one that names an error
_NUMBERED = LazyPattern(r"^[^\S\n]*\d+(?:→|\t|: )", re.MULTILINE)


def looked_at(step: TranscriptStep) -> tuple[str, str]:
    """The parts of a result that its digest is made of, uncut: its beginning, and the line that says what failed."""
    start = beginning(step.text.lstrip(), _LOOKED_AT)
    if step.tool in _FILES:
        start = _NUMBERED.sub("", start)
    telling = _telling(step.text, failed=step.failed) if step.failed or step.tool in _COMMANDS else ""
    return start, "" if telling in start[:_LONGEST_BEGINNING] else telling


def digest_of(begun: str, telling: str, *, tool: str) -> str:
    """The digest of a result on one line of at most LONGEST characters; its parts contain no secrets by now."""
    begun = _shown(begun, _LONGEST_BEGINNING if telling or tool in _FILES else LONGEST)
    return f"{begun} … {_shown(telling, LONGEST - len(begun) - 3)}" if telling else begun


def _telling(text: str, *, failed: bool) -> str:
    """The last line that names an error, as in tracebacks; of a failed result else the first that mentions one."""
    end = len(text)
    for _ in range(_MOST_TRIED):
        place = max(text.rfind(name, 0, end) for name in _NAMES)
        if place < 0:
            break
        line = _line_at(text, place)
        if _NAMED.match(line):
            return beginning(line.strip(), _LONGEST_LINE)
        end = text.rfind("\n", 0, place)
        if end < 0:
            break
    place = min((place for sign in _SIGNS if (place := text.find(sign)) >= 0), default=-1) if failed else -1
    return beginning(_line_at(text, place).strip(), _LONGEST_LINE) if place >= 0 else ""


def _line_at(text: str, place: int) -> str:
    end = text.find("\n", place)
    return text[text.rfind("\n", 0, place) + 1 : end if end >= 0 else len(text)]


def _shown(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


LENGTH = 2_000  # approximate characters of a passage
LONGEST_ASKED = 1_000  # characters of a tool's input that are kept
_SEEN = 4_000  # characters of it that are searched for secrets
_FOREIGN = "mcp__"  # prefix of tools whose names say what they are about


def passages_of(steps: Sequence[TranscriptStep], *, words: LexemeCache, redacting: bool) -> list[Passage]:
    """Split steps into passages, in order. Every step with text is in one passage, without secrets if `redacting`."""
    return [_passage(group, words) for group in _grouped(_utterances(steps, redacting=redacting))]


def joined(last: Passage, passages: Sequence[Passage], words: LexemeCache) -> list[Passage]:
    """Passages of a conversation that continued after its `last` one, as if it had been read at once.

    The first of them contains the last one, unless nothing was added to that.
    """
    steps = (*last.utterances, *(step for passage in passages for step in passage.utterances))
    if next(_grouped(steps)) == last.utterances:
        return list(passages)
    by_utterances = {passage.utterances: passage for passage in passages}
    return [by_utterances.get(group) or _passage(group, words) for group in _grouped(steps)]


def head_of(title: str, summary: str, note: str, words: LexemeCache) -> Passage:
    """The head: a passage with the title, summary and notes of the whole conversation."""
    texts = [title, *([summary] if summary != title else []), *split(note, limit=LENGTH)]
    utterances = tuple(IndexedStep(Role.CLAUDE, 0, text) for text in texts if text.strip())
    lexemes = " ".join(filter(None, (words.of(step.text) for step in utterances)))
    return Passage(utterances, lexemes, head=True)


def without_secrets(text: str, *, redacting: bool) -> str:
    """Clean text, without secrets if `redacting`."""
    cleaned = clean(text) if text else ""
    return redact(cleaned).text if redacting and cleaned else cleaned


def _grouped(utterances: Iterable[IndexedStep]) -> Iterator[tuple[IndexedStep, ...]]:
    group: list[IndexedStep] = []
    length = 0
    for utterance in utterances:
        begins = utterance.role is Role.USER and any(step.role is not Role.USER for step in group)
        if group and (begins or length + len(utterance.text) > LENGTH):
            yield tuple(group)
            group, length = [], 0
        group.append(utterance)
        length += len(utterance.text)
    if group:
        yield tuple(group)


def _passage(held: tuple[IndexedStep, ...], words: LexemeCache) -> Passage:
    texts = (
        f"{step.tool.replace('__', ' ')} {step.text}"
        if step.role is Role.TOOL and step.tool.startswith(_FOREIGN)
        else step.text
        for step in held
    )
    return Passage(held, " ".join(filter(None, map(words.of, texts))))


def _utterances(steps: Sequence[TranscriptStep], *, redacting: bool) -> Iterator[IndexedStep]:
    for step in steps:
        text = _kept(step, [without_secrets(excerpt, redacting=redacting) for excerpt in _seen(step)])
        if not text and step.role is not Role.TOOL:
            continue
        tool = step.tool if step.tool.isascii() and step.tool.isprintable() else clean(step.tool)
        for part in split(text, limit=LENGTH) if len(text) > LENGTH else (text,):
            yield IndexedStep(step.role, step.line, part, step.timestamp, tool, step.failed)


def _seen(step: TranscriptStep) -> tuple[str, ...]:
    """The parts of a step's text that are searched for secrets: more than is kept."""
    if step.role is Role.RESULT:
        return looked_at(step)
    if step.role is Role.TOOL and len(step.text) > _SEEN:
        return (beginning(step.text, _SEEN),)
    return (step.text,)


def _kept(step: TranscriptStep, texts: Sequence[str]) -> str:
    if step.role is Role.RESULT:
        return digest_of(*texts, tool=step.tool)
    return shortened(
        texts[0], min(step.enough, LONGEST_ASKED if step.role is Role.TOOL else step.enough)
    ).strip()


LONGEST_TITLE = 80
LONGEST_SUMMARY = 300
MOST_SENTENCES = 160  # sentences that are weighed: half from the beginning, half from the end
MOST_LOOKED_AT = 400  # utterances that are read at the beginning, and as many at the end
_LONGEST_SENTENCE = 220
_LEAST_LETTERS = 8
_LEAST_ROOM = 20  # characters that one more sentence of a summary needs
_ENDINGS = (".", "!", "?", "…", "。", "！", "？")

_SENTENCE_END = LazyPattern(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？｡])\s*|\n+|\s{2,}(?=[•⨯✗✘]\s)")
# A line of a pasted log: program bullets, columns, a key=value at its end.
_LOGGED = LazyPattern(r"\s*[•⨯✗✘]\s|.*\S[ ]{4,}\S|.*\s[a-z_]+=\S*[/.:]\S*\s*$")
_FENCE = LazyPattern(r"(?:^|\n)[ \t]*(?:```|~~~).*?(?:\n[ \t]*(?:```|~~~)[^\n]*|\Z)", re.DOTALL)
_MARKUP = LazyPattern(r"^(?:#{1,6}\s+|[-*+•]\s+|\d{1,2}[.)]\s+|>\s*)+|\*\*|__(?=\w)|(?<=\w)__|`")
_BLANKS = LazyPattern(r"\s+")
_OTHERS = LazyPattern(r"[\W\d_]+")  # anything but letters
_PATH_LEFT = LazyPattern(r"^@\S+\s+")  # a file reference before the request
# A command to the program, or a line of a shell or a log: not a name for a conversation.
_COMMAND = LazyPattern(
    r"/[a-z][\w:-]*(?:\s|$)|!\s*\S|[$%>#]\s+\S|https?://\S+$|\S*[\\/]\S*$"
    r"|(?:git|npm|npx|pnpm|yarn|cd|ls|cat|grep|rg|docker|kubectl|make|pip|uv|python3?|cargo|go|curl|sudo|ssh) [\w./~-]+(?: [\w./~=:-]+)*$"
    r"|(?:clear|exit|quit|help|compact|resume|commit|push|retry|stop|undo|run it|try again)[.! ]*$",
    re.IGNORECASE,
)
_OUTPUT = LazyPattern(
    r"\[\w|\{|<\w|Traceback|\d{4}-\d\d-\d\d[T ]\d\d:|\s+at \S+\(|\||-{2,}|\S+\.\w+:\d+[: ]|\d+ "
)
_GREETING = LazyPattern(
    r"^(?:(?:hi|hello|hey|hallo|moin|servus|guten (?:tag|morgen|abend)|good (?:morning|afternoon|evening)|bonjour|salut|hola|buenos d[ií]as"
    r"|안녕하세요|안녕|こんにちは|おはようございます|你好|您好)(?: (?:there|claude|again|zusammen|everyone))?[\s,.!:;~。、！，-]+)+",
    re.IGNORECASE,
)
_TALK = LazyPattern(
    r"(?:(?:ok(?:ay)?|sure|great|good|perfect|now|alright|excellent)\b[,.! ]*)*(?:let me|i'?ll|i will|now i|i'?m going to|let's|you're (?:absolutely )?right)\b"
    r"|(?:ich werde|lass mich|jetzt)\b|(?:확인해|살펴|보겠습니다)",
    re.IGNORECASE,
)
_DONE = LazyPattern(
    r"\b(?:fixed|added|implemented|done|created|removed|replaced|renamed|moved|updated|changed|works|passes|passed|because|cause[ds]?|decided"
    r"|solved|resolved|turned out|root cause|behoben|hinzugefügt|erledigt|gelöst|geändert|weil|ursache|entschieden)\b"
    r"|수정했|추가했|완료|해결|구현했|변경했|원인|때문",
    re.IGNORECASE,
)


# Headings that all notes share; the title stands under the first two.
_SECTIONS = (
    *("session title", "title", "summary", "session summary", "notes", "session notes", "current state"),
    *("task specification", "workflow", "worklog", "learnings", "key results", "files and functions"),
    *("errors & corrections", "codebase and system documentation", "overview"),
)


_words = LexemeCache()


class _Sentence(NamedTuple):
    place: int
    text: str
    role: Role


def made_title(prompts: Sequence[str]) -> str:
    """The first request among the prompts, shortened; empty if there is none."""
    for prompt in prompts[:MOST_LOOKED_AT]:
        for sentence in _sentences(prompt):
            if _is_request(sentence):
                return _cut(sentence, LONGEST_TITLE)
    return ""


def made_summary(passages: Sequence[Passage]) -> str:
    """The few most telling sentences, in order, at most LONGEST_SUMMARY characters."""
    steps = [one for passage in passages if not passage.head for one in passage.utterances]
    sentences = _weighed_ones(steps)
    if not sentences:
        return ""
    weights = _weights(sentences)
    request = next((one for one in sentences if one.role is Role.USER), None)
    selected = [request._replace(text=_cut(request.text, LONGEST_SUMMARY // 2))] if request else []
    room = LONGEST_SUMMARY - sum(len(one.text) + 2 for one in selected)
    for sentence in sorted(sentences, key=lambda one: -weights[one.place]):
        if room < _LEAST_ROOM:
            break
        if len(sentence.text) + 2 <= room and not any(
            _alike(sentence.text, other.text) for other in selected
        ):
            selected.append(sentence)
            room -= len(sentence.text) + 2
    parts = [one.text if one.text.endswith(_ENDINGS) else f"{one.text}." for one in sorted(selected)]
    return " ".join(parts) or _cut(sentences[0].text, LONGEST_SUMMARY)


FEWEST_TELLING = 3  # words that tell what a conversation was about
_LAST_PASSAGES = 3
_PLAN = LazyPattern(
    r"^#{1,3}[ \t]+(?:(?:implementation )?plan:?[ \t]+)?(?P<title>\S.*)$", re.IGNORECASE | re.MULTILINE
)


def subject_line(title: ConversationLabel, passages: Sequence[Passage]) -> str:
    """What a conversation was about: its title; if that says little, the heading of its plan or the most telling request."""
    if title.by in OWN:
        return title.text
    requests = [step.text for passage in passages for step in passage.utterances if step.role is Role.USER]
    plan = _PLAN.search(requests[0]) if requests else None
    if plan is not None and _telling_words(plan["title"]) > 1:
        return _cut(_plain(plan["title"]), LONGEST_TITLE)
    if _telling_words(title.text) >= FEWEST_TELLING:
        return title.text
    sentences = [
        sentence
        for passage in passages[:MOST_LOOKED_AT]
        for step in passage.utterances
        if step.role is Role.USER
        for sentence, _ in _telling_ones(step)
    ]
    best = max(sentences, key=_telling_words, default="")
    return _cut(best, LONGEST_TITLE) if _telling_words(best) >= FEWEST_TELLING else title.text


def closing_line(passages: Sequence[Passage]) -> str:
    """The sentence of the last answers that says best how a conversation ended; late ones and results count most."""
    ratings: list[tuple[float, int, str]] = []
    answers = [
        step
        for passage in passages[-_LAST_PASSAGES:]
        for step in passage.utterances
        if step.role is Role.CLAUDE
    ]
    for back, step in enumerate(reversed(answers)):
        for place, (sentence, _) in enumerate(_telling_ones(step)):
            rating = math.log1p(_telling_words(sentence)) - 0.25 * back - 0.1 * place
            rating += 0.8 if _DONE.search(sentence) else 0.0
            ratings.append((rating, -back, sentence))
    return max(ratings, default=(0.0, 0, ""))[2]


def _telling_words(text: str) -> int:
    return sum(len(word) > 2 for word in set(_words.of(text).split()) - stop_lexemes())


def fallback_title(passages: Sequence[Passage]) -> str:
    """The title of a conversation without any request: what was said or done first."""
    steps = [step for passage in passages if not passage.head for step in passage.utterances]
    for step in steps[:MOST_LOOKED_AT]:
        if step.role in (Role.USER, Role.CLAUDE):
            for sentence in _sentences(step.text):
                if not is_noise(sentence) and not _COMMAND.match(sentence):
                    return _cut(sentence, LONGEST_TITLE)
    return next((_cut(f"{step.tool} {step.text}".strip(), LONGEST_TITLE) for step in steps if step.tool), "")


def heading_of(note: str) -> str:
    """The first meaningful heading of notes, or the line under a heading that announces the title."""
    announced = False
    for line in note.splitlines():
        plain = _plain(line)
        if not plain or _is_hint(line):
            continue
        heading = line.lstrip().startswith("#")
        heading_name = plain.casefold().strip(": ")
        if (heading and heading_name not in _SECTIONS) or (announced and not heading):
            return _cut(plain, LONGEST_TITLE)
        announced = heading_name in _SECTIONS[:2]
    return ""


def gist_of(note: str, title: str) -> str:
    """The first lines of notes that are neither headings nor their title, shortened."""
    lines = (
        _plain(line) for line in note.splitlines() if not _is_hint(line) and not line.lstrip().startswith("#")
    )
    return _cut(" ".join(line for line in lines if line and line != title), LONGEST_SUMMARY)


def _is_hint(line: str) -> bool:
    """Whether the line is a form's hint in italics, or a rule."""
    line = line.strip()
    return line.startswith("---") or (line.startswith("_") and line.endswith("_"))


def _is_request(sentence: str) -> bool:
    letters = len(_OTHERS.sub("", sentence))
    wide = not sentence.isascii() and max(sentence) >= "\u3040"  # a Korean word says more in fewer letters
    if letters < (_LEAST_LETTERS // 2 if wide else _LEAST_LETTERS) or letters * 2 <= len(sentence):
        return False
    return not _COMMAND.match(sentence) and not _OUTPUT.match(sentence) and not is_noise(sentence)


def _sentences(text: str) -> Iterator[str]:
    """The sentences one by one, without code, markup and greetings."""
    start = 0
    text = _FENCE.sub("\n", text) if "```" in text or "~~~" in text else text
    for end in [*(match.start() for match in _SENTENCE_END.finditer(text)), len(text)]:
        raw, start = text[start:end], end
        if _LOGGED.match(raw.strip("\n")):
            continue
        sentence = _PATH_LEFT.sub("", _GREETING.sub("", _plain(raw)))
        if sentence:
            first = sentence.partition(" ")[0].replace("'", "")
            yield sentence[:1].upper() + sentence[1:] if first.isalpha() else sentence


def _plain(line: str) -> str:
    return _BLANKS.sub(" ", _MARKUP.sub("", line.strip())).strip()


def _cut(text: str, most: int) -> str:
    """Cut the text at the end of a word."""
    text = text.strip()
    if len(text) <= most:
        return text.rstrip(" .:;,") if not text.endswith("...") else text
    short = text[: most - 1]
    blank = short.rfind(" ", most // 2)
    return short[: blank if blank > 0 else None].rstrip(" .,:;-") + "…"


def _weighed_ones(said: Iterable[IndexedStep]) -> list[_Sentence]:
    """Sentences of speech that may summarize it, from the beginning and the end of a long conversation."""
    spoken = [step for step in said if step.role in (Role.USER, Role.CLAUDE)]
    spoken = spoken[:MOST_LOOKED_AT] + spoken[MOST_LOOKED_AT:][-MOST_LOOKED_AT:]
    some: list[tuple[str, Role]] = []
    upto = len(spoken)
    for number, step in enumerate(spoken):
        some += _telling_ones(step)
        if len(some) >= MOST_SENTENCES // 2:
            upto = number + 1
            break
    last: list[tuple[str, Role]] = []
    for step in reversed(spoken[upto:]):
        last = _telling_ones(step) + last
        if len(last) >= MOST_SENTENCES // 2:
            break
    return [_Sentence(place, text, role) for place, (text, role) in enumerate(some + last)]


def _telling_ones(one: IndexedStep) -> list[tuple[str, Role]]:
    answers = one.role is Role.CLAUDE
    return [
        (sentence, one.role)
        for sentence in _sentences(one.text)
        if _LEAST_LETTERS <= len(sentence) <= _LONGEST_SENTENCE
        and not (answers and (sentence.endswith(("?", "？", ":", "：")) or _TALK.match(sentence)))
        and _is_request(sentence)
    ]


def _weights(sentences: Sequence[_Sentence]) -> list[float]:
    """The weight of each sentence, by its share of recurring words and its place."""
    bags = [set(_words.of(sentence.text).split()) - stop_lexemes() for sentence in sentences]
    counts = Counter(lexeme for bag in bags for lexeme in bag)
    weights: list[float] = []
    for sentence, bag in zip(sentences, bags, strict=True):
        weight = sum(math.log1p(counts[lexeme] - 1) for lexeme in bag) / math.sqrt(len(bag) + 4)
        weight += 0.5 * math.log1p(len(bag))
        weight += 0.4 if sentence.role is Role.USER else 0.0
        weight += 0.8 if _DONE.search(sentence.text) else 0.0
        weight += 0.6 * (sentence.place / len(sentences)) if sentence.role is Role.CLAUDE else 0.0
        weights.append(weight)
    return weights


def _alike(one: str, other: str) -> bool:
    first, second = set(_words.of(one).split()), set(_words.of(other).split())
    return len(first & second) > 0.6 * min(len(first), len(second))


OWN = ("custom", "ai")  # titles from the transcript itself
ASKED_FOR = ("model", "rlm")  # summaries that a person requested: they are never replaced
LONGEST_NOTE = 8_000  # characters of notes that are indexed


def is_due(
    conversation: IndexedConversation, leaves: Mapping[int, str], *, note_modified: int | None
) -> bool:
    """Whether the title, the summary or the notes need an update. `note_modified` is None if the file is gone."""
    if conversation.silent:
        return False
    if not conversation.summary.by or not conversation.title.by:
        return True
    if note_modified is not None and note_modified != conversation.note_modified:
        return True
    leaf = leaves.get(conversation.row, "")
    titled = conversation.title.by in OWN or conversation.title.text == leaf
    summed_up = conversation.summary.by in (*ASKED_FOR, "note") or conversation.summary.text == leaf
    return bool(leaf) and not (titled and summed_up)


def made_head(
    conversation: IndexedConversation, passages: Sequence[Passage], words: LexemeCache
) -> tuple[IndexedConversation, Passage]:
    """The conversation with a title and a summary made from all its passages, and its head."""
    title, summary = conversation.title, conversation.summary
    title = title if title.by in OWN else ConversationLabel(_titled(passages), "made")
    summary = summary if summary.by in ASKED_FOR else ConversationLabel(made_summary(passages), "made")
    conversation = replace(conversation, title=title, summary=summary)
    return conversation, head_of(title.text, summary.text, "", words)


def updated_head(
    conversation: IndexedConversation,
    index: HistoryIndex,
    words: LexemeCache,
    *,
    leaf: str,
    note: str,
    note_modified: int,
) -> tuple[IndexedConversation, Passage]:
    """The conversation with its title and summary, and its head. `note` are its notes. Raises StoreError."""
    heading = heading_of(note)
    gist = gist_of(note, heading)
    title, summary = conversation.title, conversation.summary
    has_title = title.by in OWN or (title.by == "made" and bool(title.text))
    needs_title = not (has_title or leaf or heading)
    needs_summary = not (summary.by in ASKED_FOR or gist or leaf)
    rows = index.passages_of(conversation.row) if needs_title or needs_summary else []
    passages = [passage for _, passage in rows]
    if title.by not in OWN:
        own = ConversationLabel(leaf, "summary") if leaf else ConversationLabel(heading, "note")
        title = own if own.text else title if has_title else ConversationLabel(_titled(passages), "made")
    if summary.by not in ASKED_FOR:
        own = ConversationLabel(gist, "note") if gist else ConversationLabel(leaf, "summary")
        summary = own if own.text else ConversationLabel(made_summary(passages), "made")
    conversation = replace(conversation, title=title, summary=summary, note_modified=note_modified)
    return conversation, head_of(title.text, summary.text, note, words)


def note_of(transcripts: Transcripts, file: Path, *, redacting: bool) -> str:
    """The notes next to a transcript, as far as they are indexed."""
    return without_secrets(transcripts.note(file), redacting=redacting)[:LONGEST_NOTE]


def _titled(passages: Sequence[Passage]) -> str:
    prompts = [step.text for passage in passages for step in passage.utterances if step.role is Role.USER]
    return made_title(prompts) or fallback_title(passages)


EMBED_HISTORY_JOB = "history-embed"
BATCH = 8  # passages; a question shares the processor with one batch
AHEAD = 256  # passages that are fetched at once
MOST_READ = 800  # characters of a passage: one window of usual models, and a second costs as much again
PAUSE = timedelta(seconds=30)  # between two runs of the job
SPEECH = (Role.USER, Role.CLAUDE)
LOCK = "history-embed.lock"


def history_model(engine: Engine) -> str | None:
    """The model that embeds passages; None if this machine has none, or the settings disable it."""
    history = engine.settings.history
    is_enabled = history.enabled and history.vectors and engine.vector_source.terms is None
    return engine.vector_source.model if is_enabled else None


async def embed_history(engine: Engine, *, most: int, seconds: float | None = None) -> int:
    """Embed at most `most` passages, those of the latest conversations first, and return how many.

    Stops early if the model fails, which `vector_source.reason` explains, and when the time is up. Does
    nothing while another process embeds. Raises StoreError, OSError.
    """
    model = history_model(engine)
    if model is None or engine.history.withheld:
        return 0
    end = inf if seconds is None else time.monotonic() + seconds
    embedded = 0
    # Two processes would embed the same passages.
    with index_turn(engine.settings.home, lock=LOCK) as is_ours:
        while is_ours and embedded < most and time.monotonic() < end:
            limit = min(AHEAD, most - embedded)
            passages = await asyncio.to_thread(engine.history.unembedded, model, limit=limit)
            got = await _embed_passages(engine, passages, model=model, end=end)
            embedded += got
            if not got or len(passages) < limit:
                break
    return embedded


async def _embed_passages(engine: Engine, found: Mapping[int, Passage], *, model: str, end: float) -> int:
    """Embed the passages until the time is up or the model fails, and return how many."""
    rows, embedded = list(found), 0
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        matrix = await engine.vector_source.embed([as_read(found[row]) for row in batch])
        if matrix is None:
            break
        vectors = dict(zip(batch, matrix, strict=True))
        await asyncio.to_thread(engine.history.put_vectors, vectors, model=model)
        embedded += len(batch)
        if time.monotonic() >= end:
            break
    return embedded


async def unembedded(engine: Engine) -> int:
    """Roughly how many passages lack a vector of the current model. Raises StoreError."""
    model = history_model(engine)
    if model is None or not await asyncio.to_thread(engine.history.unembedded, model, limit=1):
        return 0
    stock = await asyncio.to_thread(engine.history.stock)
    return max(1, stock.passages - stock.embedded)


async def queue_history_embedding(engine: Engine, *, after: timedelta = timedelta()) -> None:
    """Queue the job that embeds passages, unless one waits already or no model is to embed them."""
    if history_model(engine) is None or engine.history.withheld:
        return
    now, name = engine.clock(), own_job(engine, EMBED_HISTORY_JOB)
    await engine.store.apply([Enqueue(Job(engine.new_id(), name, created=now, due=now + after, key=name))])


def own_job(engine: Engine, name: str) -> str:
    """The name of a job that is only for this home: the queue of a server is shared with other machines."""
    if engine.store_registry.home == LOCAL:
        return name
    own = blake2b(f"{node()}\0{engine.settings.home}".encode(errors="surrogatepass"), digest_size=4)
    return f"{name}:{own.hexdigest()}"


def as_read(passage: Passage) -> str:
    """The text that the model embeds: the speech, plus tool calls and results if that is short."""
    text = "\n".join(step.text for step in passage.utterances if step.role in SPEECH)
    if len(text) < MOST_READ:
        other_text = "\n".join(step.text for step in passage.utterances if step.role not in SPEECH)
        text = f"{text}\n{other_text}".strip() if other_text else text
    return shortened(text, MOST_READ)


TURN = 64  # passages between two progress reports
NO_MODEL = (
    "Conversations are found by their words alone: no model on this machine reads them, "
    "and an embedding service isn't sent them."
)


class EmbedHistoryInput(Input):
    """How many passages to embed at most, and for how long."""

    most: int = Field(default=256, ge=1)
    seconds: float | None = Field(default=None, gt=0)


class EmbedHistoryResult(Output):
    """How many passages got a vector, roughly how many still lack one, and why it ended."""

    embedded: int
    left: int
    model: str | None
    notice: str


async def _embed(context: Context, request: EmbedHistoryInput) -> EmbedHistoryResult:
    """Make vectors for past conversations."""
    engine = context.engine
    model = history_model(engine)
    if model is None:
        return EmbedHistoryResult(
            embedded=0, left=0, model=None, notice=engine.vector_source.reason or NO_MODEL
        )
    end = None if request.seconds is None else time.monotonic() + request.seconds
    total = min(request.most, await unembedded(engine))
    embedded = 0
    while embedded < request.most and (end is None or time.monotonic() < end):
        context.progress("embed", embedded, total)
        seconds_left = None if end is None else end - time.monotonic()
        count = await embed_history(engine, most=min(TURN, request.most - embedded), seconds=seconds_left)
        if not count:
            break
        embedded += count
    context.progress("embed", embedded, max(embedded, total))
    notice = engine.vector_source.reason
    return EmbedHistoryResult(embedded=embedded, left=await unembedded(engine), model=model, notice=notice)


EMBED_HISTORY = operation("embed_history", _embed, writes=True, owner_only=True, changes_memories=False)

"""What a conversation is called and summed up as, where it doesn't say so itself: in its own words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mindhold.engine.text.expression import Expression
from mindhold.engine.text.noise import is_noise
from mindhold.model.lexemes import stop_lexemes
from mindhold.model.words import Words
from mindhold.ports.history import Passage, Utterance
from mindhold.ports.transcripts import Role

LONGEST_TITLE = 80
LONGEST_SUMMARY = 300
MOST_SENTENCES = 160  # that are weighed: half from the beginning, half from the end
MOST_LOOKED_AT = (
    400  # utterances at the beginning, and as many at the end: where none says anything, it ends too
)
_LONGEST_SENTENCE = 220
_LEAST_LETTERS = 8
_LEAST_ROOM = 20  # for one more sentence of a summary
_ENDINGS = (".", "!", "?", "…", "。", "！", "？")

_SENTENCE_END = Expression(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？｡])\s*|\n+|\s{2,}(?=[•⨯✗✘]\s)")
# A line of a log that was pasted: bullets of programs, columns, a key=value at its end.
_LOGGED = Expression(r"\s*[•⨯✗✘]\s|.*\S[ ]{4,}\S|.*\s[a-z_]+=\S*[/.:]\S*\s*$")
_FENCE = Expression(r"(?:^|\n)[ \t]*(?:```|~~~).*?(?:\n[ \t]*(?:```|~~~)[^\n]*|\Z)", re.DOTALL)
_MARKUP = Expression(r"^(?:#{1,6}\s+|[-*+•]\s+|\d{1,2}[.)]\s+|>\s*)+|\*\*|__(?=\w)|(?<=\w)__|`")
_BLANKS = Expression(r"\s+")
_OTHERS = Expression(r"[\W\d_]+")  # than letters
_PATH_LEFT = Expression(r"^@\S+\s+")  # a file that was pointed at before the request
# A command to the program, or a line of a shell or of a log: nothing that a person would call a conversation.
_COMMAND = Expression(
    r"/[a-z][\w:-]*(?:\s|$)|!\s*\S|[$%>#]\s+\S|https?://\S+$|\S*[\\/]\S*$"
    r"|(?:git|npm|npx|pnpm|yarn|cd|ls|cat|grep|rg|docker|kubectl|make|pip|uv|python3?|cargo|go|curl|sudo|ssh) [\w./~-]+(?: [\w./~=:-]+)*$"
    r"|(?:clear|exit|quit|help|compact|resume|commit|push|retry|stop|undo|run it|try again)[.! ]*$",
    re.IGNORECASE,
)
_OUTPUT = Expression(
    r"\[\w|\{|<\w|Traceback|\d{4}-\d\d-\d\d[T ]\d\d:|\s+at \S+\(|\||-{2,}|\S+\.\w+:\d+[: ]|\d+ "
)
_GREETING = Expression(
    r"^(?:(?:hi|hello|hey|hallo|moin|servus|guten (?:tag|morgen|abend)|good (?:morning|afternoon|evening)|bonjour|salut|hola|buenos d[ií]as"
    r"|안녕하세요|안녕|こんにちは|おはようございます|你好|您好)(?: (?:there|claude|again|zusammen|everyone))?[\s,.!:;~。、！，-]+)+",
    re.IGNORECASE,
)
_TALK = Expression(
    r"(?:(?:ok(?:ay)?|sure|great|good|perfect|now|alright|excellent)\b[,.! ]*)*(?:let me|i'?ll|i will|now i|i'?m going to|let's|you're (?:absolutely )?right)\b"
    r"|(?:ich werde|lass mich|jetzt)\b|(?:확인해|살펴|보겠습니다)",
    re.IGNORECASE,
)
_DONE = Expression(
    r"\b(?:fixed|added|implemented|done|created|removed|replaced|renamed|moved|updated|changed|works|passes|passed|because|cause[ds]?|decided"
    r"|solved|resolved|turned out|root cause|behoben|hinzugefügt|erledigt|gelöst|geändert|weil|ursache|entschieden)\b"
    r"|수정했|추가했|완료|해결|구현했|변경했|원인|때문",
    re.IGNORECASE,
)


# Headings that notes have alike; under the first two the title stands.
_SECTIONS = (
    *("session title", "title", "summary", "session summary", "notes", "session notes", "current state"),
    *("task specification", "workflow", "worklog", "learnings", "key results", "files and functions"),
    *("errors & corrections", "codebase and system documentation", "overview"),
)


_words = Words()


class _Sentence(NamedTuple):
    place: int
    text: str
    role: Role


def made_title(prompts: Sequence[str]) -> str:
    """The first request in what somebody said, in short; empty where there is none."""
    for prompt in prompts[:MOST_LOOKED_AT]:
        for sentence in _sentences(prompt):
            if _is_request(sentence):
                return _cut(sentence, LONGEST_TITLE)
    return ""


def made_summary(passages: Sequence[Passage]) -> str:
    """The few sentences that tell most of it, in order, at most LONGEST_SUMMARY characters."""
    said = [one for passage in passages if not passage.head for one in passage.utterances]
    sentences = _weighed_ones(said)
    if not sentences:
        return ""
    weights = _weights(sentences)
    asked = next((one for one in sentences if one.role is Role.USER), None)
    kept = [asked._replace(text=_cut(asked.text, LONGEST_SUMMARY // 2))] if asked else []
    room = LONGEST_SUMMARY - sum(len(one.text) + 2 for one in kept)
    for sentence in sorted(sentences, key=lambda one: -weights[one.place]):
        if room < _LEAST_ROOM:
            break
        if len(sentence.text) + 2 <= room and not any(_alike(sentence.text, other.text) for other in kept):
            kept.append(sentence)
            room -= len(sentence.text) + 2
    told = [one.text if one.text.endswith(_ENDINGS) else f"{one.text}." for one in sorted(kept)]
    return " ".join(told) or _cut(sentences[0].text, LONGEST_SUMMARY)


def fallback_title(passages: Sequence[Passage]) -> str:
    """For a conversation in which nobody asked for anything: what was said or done first."""
    said = [one for passage in passages if not passage.head for one in passage.utterances]
    for one in said[:MOST_LOOKED_AT]:
        if one.role in (Role.USER, Role.CLAUDE):
            for sentence in _sentences(one.text):
                if not is_noise(sentence) and not _COMMAND.match(sentence):
                    return _cut(sentence, LONGEST_TITLE)
    return next((_cut(f"{one.tool} {one.text}".strip(), LONGEST_TITLE) for one in said if one.tool), "")


def heading_of(note: str) -> str:
    """The first heading of notes that says something, or what stands under one that announces the title."""
    announced = False
    for line in note.splitlines():
        told = _plain(line)
        if not told or _is_hint(line):
            continue
        heading = line.lstrip().startswith("#")
        named = told.casefold().strip(": ")
        if (heading and named not in _SECTIONS) or (announced and not heading):
            return _cut(told, LONGEST_TITLE)
        announced = named in _SECTIONS[:2]
    return ""


def gist_of(note: str, title: str) -> str:
    """The first lines of notes that are neither headings nor their title, in short."""
    lines = (
        _plain(line) for line in note.splitlines() if not _is_hint(line) and not line.lstrip().startswith("#")
    )
    return _cut(" ".join(line for line in lines if line and line != title), LONGEST_SUMMARY)


def _is_hint(line: str) -> bool:
    """What a form says of how to fill it in, in italics; a rule."""
    line = line.strip()
    return line.startswith("---") or (line.startswith("_") and line.endswith("_"))


def _is_request(sentence: str) -> bool:
    letters = len(_OTHERS.sub("", sentence))
    wide = not sentence.isascii() and max(sentence) >= "\u3040"  # a Korean word says more in fewer letters
    if letters < (_LEAST_LETTERS // 2 if wide else _LEAST_LETTERS) or letters * 2 <= len(sentence):
        return False
    return not _COMMAND.match(sentence) and not _OUTPUT.match(sentence) and not is_noise(sentence)


def _sentences(text: str) -> Iterator[str]:
    """One after the other, without code, markup and greetings."""
    start = 0
    text = _FENCE.sub("\n", text) if "```" in text or "~~~" in text else text
    for end in [*(found.start() for found in _SENTENCE_END.finditer(text)), len(text)]:
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
    """At a word's end."""
    text = text.strip()
    if len(text) <= most:
        return text.rstrip(" .:;,") if not text.endswith("...") else text
    short = text[: most - 1]
    blank = short.rfind(" ", most // 2)
    return short[: blank if blank > 0 else None].rstrip(" .,:;-") + "…"


def _weighed_ones(said: Iterable[Utterance]) -> list[_Sentence]:
    """What people and the assistant said that may tell of it: the beginning and the end of a long conversation."""
    spoken = [one for one in said if one.role in (Role.USER, Role.CLAUDE)]
    spoken = spoken[:MOST_LOOKED_AT] + spoken[MOST_LOOKED_AT:][-MOST_LOOKED_AT:]
    some: list[tuple[str, Role]] = []
    upto = len(spoken)
    for number, one in enumerate(spoken):
        some += _telling_ones(one)
        if len(some) >= MOST_SENTENCES // 2:
            upto = number + 1
            break
    last: list[tuple[str, Role]] = []
    for one in reversed(spoken[upto:]):
        last = _telling_ones(one) + last
        if len(last) >= MOST_SENTENCES // 2:
            break
    return [_Sentence(place, text, role) for place, (text, role) in enumerate(some + last)]


def _telling_ones(one: Utterance) -> list[tuple[str, Role]]:
    answers = one.role is Role.CLAUDE
    return [
        (sentence, one.role)
        for sentence in _sentences(one.text)
        if _LEAST_LETTERS <= len(sentence) <= _LONGEST_SENTENCE
        and not (answers and (sentence.endswith(("?", "？", ":", "：")) or _TALK.match(sentence)))
        and _is_request(sentence)
    ]


def _weights(sentences: Sequence[_Sentence]) -> list[float]:
    """By how many of the conversation's recurring words each has, and by where it stands."""
    bags = [set(_words.of(one.text).split()) - stop_lexemes() for one in sentences]
    seen = Counter(lexeme for bag in bags for lexeme in bag)
    weights: list[float] = []
    for one, bag in zip(sentences, bags, strict=True):
        weight = sum(math.log1p(seen[lexeme] - 1) for lexeme in bag) / math.sqrt(len(bag) + 4)
        weight += 0.5 * math.log1p(len(bag))
        weight += 0.4 if one.role is Role.USER else 0.0
        weight += 0.8 if _DONE.search(one.text) else 0.0
        weight += 0.6 * (one.place / len(sentences)) if one.role is Role.CLAUDE else 0.0
        weights.append(weight)
    return weights


def _alike(one: str, other: str) -> bool:
    first, second = set(_words.of(one).split()), set(_words.of(other).split())
    return len(first & second) > 0.6 * min(len(first), len(second))

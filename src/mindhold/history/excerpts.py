"""Excerpts of conversations: what is shown of them, and findings of models, checked against the text."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from mindhold.engine import Engine
from mindhold.memories.prepare import QUARANTINE_FROM
from mindhold.memories.validation import safe_text
from mindhold.model.errors import RlmConnectionFailed, RlmError, RlmToolFailed
from mindhold.model.lexemes import lexemes
from mindhold.model.prompt_markup import parse_json_answer
from mindhold.ports.history import IndexedConversation, Passage
from mindhold.ports.transcripts import Role
from mindhold.text.clean import clean
from mindhold.text.injection import suspicion
from mindhold.text.pattern import LazyPattern
from mindhold.text.redaction import redact
from mindhold.text.similarity import content_words

LONGEST_EXCERPT = 300
LONGEST_SUMMARY = 300
LONGEST_TITLE = 100
AROUND = 4_000  # characters around an excerpt that are looked at for secrets
LONGEST_LOOK = 40_000  # characters of one utterance that an excerpt is taken from
WITHHELD = "[withheld: it reads like instructions to its reader]"
_WORD = re.compile(r"\w[\w'’./+#-]*")
# What Markdown and logs are decorated with; what is written in it stays.
_FENCE = LazyPattern(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_LEADING = LazyPattern(
    r"^[ \t]*(?:#{1,6}[ \t]+|[-*+•▪●◦⨯✗✓✔→➜|>][ \t]+)+|^[ \t]*[-=_*|:+─━ ]{3,}$", re.MULTILINE
)
_STRONG = LazyPattern(r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*")
_LINK = LazyPattern(r"\[([^\]\n]{1,200})\]\([^)\s]{1,400}\)")
_CODE = LazyPattern(r"`([^`\n]+)`")
_INNER = LazyPattern(r"\s[•⨯▪●◦─━]+(?=\s)")
_ROW = LazyPattern(r"^[ \t]*\|[^\n]*\|[ \t]*$", re.MULTILINE)  # of a table


def safe_line(engine: Engine, text: str, longest: int) -> str:
    """On one line, cut, without secrets; what tries to instruct its reader is not shown at all."""
    return shortened_line(undecorated_line(_safe(engine, text[:AROUND])), longest)


def first_safe_line(engine: Engine, *texts: str, longest: int) -> str:
    """The first of them that there is and that isn't withheld: a title tells which conversation it is, whatever its summary says."""
    told = [safe_line(engine, text, longest) for text in texts if text]
    return next((text for text in told if text != WITHHELD), told[0] if told else "")


def shortened_line(text: str, longest: int) -> str:
    """On one line of so many characters at most."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def undecorated_line(text: str) -> str:
    """On one line, without what Markdown and logs are decorated with."""
    text = _ROW.sub(lambda row: row[0].replace("|", " "), _FENCE.sub("", text))
    text = _LEADING.sub("", text)
    text = _CODE.sub(r"\1", _LINK.sub(r"\1", _STRONG.sub(r"\1", text)))
    return " ".join(_INNER.sub(" ", text).split())


def excerpt_of(engine: Engine, text: str, wanted: Collection[str], *, place: int = 0) -> str:
    """The stretch of a text that says most of what was asked for, on one line; that from `place` on, where one is named."""
    place = place if len(text) > LONGEST_EXCERPT else 0
    rest = text[place : place + LONGEST_LOOK]
    around = rest[:AROUND] if place else _stretch(rest, wanted, length=AROUND)
    told = undecorated_line(_safe(engine, around))
    if place and told != WITHHELD:
        return "…" + shortened_line(told, LONGEST_EXCERPT - 1)
    return _stretch(told, wanted, length=LONGEST_EXCERPT)


def _safe(engine: Engine, text: str) -> str:
    if suspicion(text).score >= QUARANTINE_FROM:
        return WITHHELD
    return safe_text(engine, text)


def _stretch(text: str, wanted: Collection[str], *, length: int) -> str:
    if len(text) <= length:
        return text
    length -= 2  # for what says that something was left out
    places = [
        match.start() for match in _WORD.finditer(text) if any(one in wanted for one in lexemes(match[0]))
    ]
    start, best = 0, 0
    for number, place in enumerate(places):
        within = bisect_left(places, place + length) - number
        if within > best:
            start, best = place, within
    start = max(0, start - length // 6)
    start = text.rfind(" ", max(0, start - 40), start) + 1 or start if start else 0
    part = text[start : start + length].strip()
    return ("…" if start else "") + part + ("…" if start + length < len(text) else "")


LONGEST_FOREIGN_TEXT = 4_000  # characters of what is said that are looked at
LONGEST_REASON = 120
LONGEST_FAULT = 400
UNTOLD = "it says nothing that can be passed on"
# Words that explain need none of these; those that want something done do.
_ADDRESS = re.compile(r"\w://|\bwww\.|\|\s*\w*sh\b|\$\(|\b(?:curl|wget)\s", re.IGNORECASE)
_COMMAND = re.compile(r"[`|$<>{}\\]|&&|(?:^|\s)(?:sudo|rm|bash|sh|npx|pip|eval|chmod)\s", re.IGNORECASE)


def harmless(text: str, longest: int) -> str:
    """On one line of so many characters, without secrets and what nobody sees; empty where it tries to instruct its reader."""
    text = text[:LONGEST_FOREIGN_TEXT]
    if suspicion(text).score >= QUARANTINE_FROM:
        return ""
    return shortened_line(redact(clean(text)).text, longest)


def reason(text: str) -> str:
    """Why a reader finds something relevant; empty where that is anything else than a few plain words."""
    told = harmless(text, LONGEST_REASON)
    return "" if _ADDRESS.search(told) or _COMMAND.search(told) else told.replace('"', "'")


def fault(text: str) -> str:
    """What went wrong, as a server tells it."""
    told = harmless(text, LONGEST_FAULT).rstrip(".")
    return UNTOLD if not told or _ADDRESS.search(told) else told


def safe_fault(error: RlmError) -> RlmError:
    """The same for whoever is told of it: its words may be the server's."""
    kind = RlmConnectionFailed if isinstance(error, RlmConnectionFailed) else RlmToolFailed
    words = fault(error.message)
    if words == UNTOLD:  # what stands before the first colon is ours
        words = f"{error.message.partition(':')[0]}: {UNTOLD}"
    return kind(f"{words}.", advice=harmless(error.advice, LONGEST_FAULT))


MOST_FINDINGS = 20
LONGEST_FINDING_EXCERPT = 2_000  # of which the stretch is shown that answers
LONGEST_ANSWER = 20_000  # characters that are looked at
MOST_VERDICTS = 10  # of one answer
MOST_BRACKETS = 8  # at which JSON is looked for
SHORTEST_EXCERPT = 12  # characters; what is shorter stands everywhere
ALIKE = 0.6  # of an excerpt's words, from which on a text is taken for what was meant
ROLES = {Role.USER: "user", Role.CLAUDE: "assistant", Role.TOOL: "tool", Role.RESULT: "result"}
SPEECH = ("user", "assistant")
# What is asked for, and what others call the same.
_RELEVANCE = ("relevance", "relevance_score", "score")
_EXCERPT = ("excerpt", "relevant_excerpt", "quote")
_WHY = ("why", "relevance_explanation", "explanation", "reason")
_LINE = ("line", "line_number")
_OMISSION = re.compile(r"\s*(?:\[\.{3}\]|\[…\]|\.{3,}|…)\s*")
_PLAIN = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "\u00a0": " ", "`": "'", '"': "'"})


class TranscriptRow(NamedTuple):
    """What was said or done, as it is handed over."""

    role: str
    content: str
    line: int
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReaderVerdict:
    """What a reader says about something that it was given."""

    relevance: float
    excerpt: str = ""
    why: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ReaderFinding:
    """A conversation (by its row in the index) that answers, the words that do, and the line that they stand on."""

    row: int
    relevance: float
    why: str
    excerpt: str
    line: int | None = None
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReaderReport:
    """What came of it. With an error or a notice the results are those that there were until then; `unread` tells what there was
    no room for."""

    results: tuple[ReaderFinding, ...] = ()
    error: RlmError | None = None
    notice: str = ""
    by: str = ""  # who read
    read: int = 0  # conversations
    unread: str = ""

    @property
    def failed(self) -> bool:
        """Nothing came of it: somebody else must answer."""
        return not self.results and bool(self.error or self.notice)


def rows_of(passages: Iterable[Passage], *, redacting: bool) -> list[TranscriptRow]:
    """What was said in them, in order. What leaves for a model bears no secrets, whatever was so when it was indexed."""
    rows: list[TranscriptRow] = []
    for passage in passages:
        if passage.head:
            continue
        for one in passage.utterances:
            text = f"{one.tool}: {one.text}" if one.tool else one.text
            text = redact(text).text if redacting else text
            rows.append(TranscriptRow(ROLES[one.role], text, one.line, one.timestamp))
    return rows


def row_value(row: TranscriptRow) -> dict[str, Any]:
    """As it stands in a line of JSON."""
    when = row.timestamp.isoformat() if row.timestamp else None
    return {"role": row.role, "content": row.content, "timestamp": when, "line": row.line}


def json_in(answer: str) -> Any:
    """The JSON that an answer is or holds, with whatever words and fences around it; None when there is none near its start."""
    answer = answer[:LONGEST_ANSWER]
    value = parse_json_answer(answer)
    if value is not None:
        return value
    decoder = json.JSONDecoder()
    for match in islice(re.finditer(r"[\[{]", answer), MOST_BRACKETS):
        try:
            value, _ = decoder.raw_decode(answer, match.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) or (
            isinstance(value, list) and any(isinstance(one, dict) for one in value)
        ):
            return value
    return None


def verdicts_in(value: Any) -> list[ReaderVerdict]:
    """Of an answer that is one or several; what is none is passed over."""
    values = value[:MOST_VERDICTS] if isinstance(value, list) else [value]
    return [verdict for one in values if (verdict := verdict_of(one)) is not None]


def verdict_of(value: Any) -> ReaderVerdict | None:
    """None when it says nothing of relevance."""
    if not isinstance(value, Mapping):
        return None
    relevance = _share(_first(value, _RELEVANCE))
    if relevance is None:
        return None
    excerpt, why, line = _first(value, _EXCERPT), _first(value, _WHY), _first(value, _LINE)
    return ReaderVerdict(
        relevance,
        excerpt[:LONGEST_FINDING_EXCERPT] if isinstance(excerpt, str) else "",
        why[:LONGEST_FINDING_EXCERPT] if isinstance(why, str) else "",
        line if type(line) is int else None,
    )


def checked_finding(
    verdict: ReaderVerdict,
    row: int,
    rows: Sequence[TranscriptRow],
    *,
    above: float,
    wanted: Collection[str],
    anyhow: bool = False,
) -> ReaderFinding | None:
    """It with words that really stand in what was read; None when it isn't relevant.

    Where the reader's own don't stand there, they are those that have most of the question's words (`wanted`); without any of
    these it is no finding, unless `anyhow`.
    """
    if verdict.relevance <= above:
        return None
    place = _standing(verdict, rows) or _nearest(verdict, rows) or _likeliest(rows, wanted, anyhow=anyhow)
    if place is None:
        return None
    excerpt, found = place
    return ReaderFinding(
        row,
        verdict.relevance,
        reason(verdict.why),
        shortened_line(excerpt, LONGEST_FINDING_EXCERPT),
        found.line,
        found.timestamp,
    )


def best_findings(
    findings: Iterable[ReaderFinding], conversations: Mapping[int, IndexedConversation]
) -> tuple[ReaderFinding, ...]:
    """The most relevant first, one of each session that a person would name."""
    chosen: dict[str, ReaderFinding] = {}
    for finding in sorted(findings, key=lambda one: -one.relevance):
        chosen.setdefault(conversations[finding.row].belongs_to, finding)
    return tuple(chosen.values())[:MOST_FINDINGS]


def _first(value: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _share(value: Any) -> float | None:
    """0 to 1, also where it is given as text or in percent."""
    if isinstance(value, bool):
        return None
    scale = 1.0
    if isinstance(value, str):
        text = value[:40].strip()
        scale = 100.0 if text.endswith("%") else 1.0
        try:
            value = float(text.rstrip("% "))
        except ValueError:
            return None
    if not isinstance(value, int | float) or value != value:
        return None
    if value >= scale:  # also what is too large to be divided
        return 1.0
    return value / scale if value > 0 else 0.0


def _standing(verdict: ReaderVerdict, rows: Sequence[TranscriptRow]) -> tuple[str, TranscriptRow] | None:
    """The excerpt where it stands word for word, but for blanks, quotation marks and what was left out of it."""
    wanted = max((_folded(piece) for piece in _OMISSION.split(verdict.excerpt)), key=len, default="")
    if len(wanted) < SHORTEST_EXCERPT:
        return None
    for row in _named_first(verdict.line, rows):
        text = " ".join(row.content.split())
        start = _folded(text).find(wanted)
        if start >= 0:
            return text[start : start + len(wanted)], row
    return None


def _nearest(verdict: ReaderVerdict, rows: Sequence[TranscriptRow]) -> tuple[str, TranscriptRow] | None:
    """What stands on the line that it names, else what has most of the excerpt's words, if that is most of them."""
    words = content_words(verdict.excerpt)
    named = [row for row in rows if row.line == verdict.line]
    scored = [(len(words & content_words(row.content)), row) for row in named or rows]
    most, nearest = max(scored, key=lambda one: one[0], default=(0, None))
    if nearest is None or (not named and most < max(2.0, ALIKE * len(words))):
        return None
    return nearest.content, nearest


def _likeliest(
    rows: Sequence[TranscriptRow], wanted: Collection[str], *, anyhow: bool
) -> tuple[str, TranscriptRow] | None:
    scored = [(len(content_words(row.content).intersection(wanted)), row) for row in rows]
    most, likeliest = max(scored, key=lambda one: one[0], default=(0, None))
    return (likeliest.content, likeliest) if likeliest is not None and (most or anyhow) else None


def _named_first(line: int | None, rows: Sequence[TranscriptRow]) -> Iterator[TranscriptRow]:
    yield from (row for row in rows if row.line == line)
    yield from (row for row in rows if row.line != line)


def _folded(text: str) -> str:
    """Of the same length as the text, once its blanks are single ones."""
    return " ".join(text.split()).translate(_PLAIN)

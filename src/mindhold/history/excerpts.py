"""Excerpts of conversations: the text that is shown, and the findings of models checked against the transcript."""

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
from mindhold.memories.prepare import QUARANTINE_FROM, safe_text
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
AROUND = 4_000  # characters around an excerpt that are checked for secrets
LONGEST_LOOK = 40_000  # characters of one utterance that an excerpt is taken from
WITHHELD = "[withheld: it reads like instructions to its reader]"
_WORD = re.compile(r"\w[\w'’./+#-]*")
# Decoration of Markdown and logs; the text inside it stays.
_FENCE = LazyPattern(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_LEADING = LazyPattern(
    r"^[ \t]*(?:#{1,6}[ \t]+|[-*+•▪●◦⨯✗✓✔→➜|>][ \t]+)+|^[ \t]*[-=_*|:+─━ ]{3,}$", re.MULTILINE
)
_STRONG = LazyPattern(r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*")
_LINK = LazyPattern(r"\[([^\]\n]{1,200})\]\([^)\s]{1,400}\)")
_CODE = LazyPattern(r"`([^`\n]+)`")
_INNER = LazyPattern(r"\s[•⨯▪●◦─━]+(?=\s)")
_ROW = LazyPattern(r"^[ \t]*\|[^\n]*\|[ \t]*$", re.MULTILINE)  # a row of a table


def safe_line(engine: Engine, text: str, longest: int) -> str:
    """One shortened line without secrets; text that tries to instruct its reader is withheld."""
    return shortened_line(undecorated_line(_safe(engine, text[:AROUND])), longest)


def first_safe_line(engine: Engine, *texts: str, longest: int) -> str:
    """The first text that isn't withheld, as a safe line: a title still names what has a withheld summary."""
    lines = [safe_line(engine, text, longest) for text in texts if text]
    return next((text for text in lines if text != WITHHELD), lines[0] if lines else "")


def shortened_line(text: str, longest: int) -> str:
    """The text on one line, cut to `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def undecorated_line(text: str) -> str:
    """The text on one line, without the decoration of Markdown and logs."""
    text = _ROW.sub(lambda row: row[0].replace("|", " "), _FENCE.sub("", text))
    text = _LEADING.sub("", text)
    text = _CODE.sub(r"\1", _LINK.sub(r"\1", _STRONG.sub(r"\1", text)))
    return " ".join(_INNER.sub(" ", text).split())


def excerpt_of(engine: Engine, text: str, wanted: Collection[str], *, place: int = 0) -> str:
    """The part of a text with most of the `wanted` lexemes, on one line; with `place`, the part that starts there."""
    place = place if len(text) > LONGEST_EXCERPT else 0
    rest = text[place : place + LONGEST_LOOK]
    around = rest[:AROUND] if place else _stretch(rest, wanted, length=AROUND)
    line = undecorated_line(_safe(engine, around))
    if place and line != WITHHELD:
        return "…" + shortened_line(line, LONGEST_EXCERPT - 1)
    return _stretch(line, wanted, length=LONGEST_EXCERPT)


def _safe(engine: Engine, text: str) -> str:
    if suspicion(text).score >= QUARANTINE_FROM:
        return WITHHELD
    return safe_text(engine, text)


def _stretch(text: str, wanted: Collection[str], *, length: int) -> str:
    if len(text) <= length:
        return text
    length -= 2  # for the two ellipses
    places = [
        match.start()
        for match in _WORD.finditer(text)
        if any(lexeme in wanted for lexeme in lexemes(match[0]))
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


LONGEST_FOREIGN_TEXT = 4_000  # characters of a foreign text that are used
LONGEST_REASON = 120
LONGEST_FAULT = 400
UNTOLD = "it says nothing that can be passed on"
# An explanation needs none of these; a request to do something does.
_ADDRESS = re.compile(r"\w://|\bwww\.|\|\s*\w*sh\b|\$\(|\b(?:curl|wget)\s", re.IGNORECASE)
_COMMAND = re.compile(r"[`|$<>{}\\]|&&|(?:^|\s)(?:sudo|rm|bash|sh|npx|pip|eval|chmod)\s", re.IGNORECASE)


def harmless(text: str, longest: int) -> str:
    """One line without secrets and invisible characters; empty if it tries to instruct its reader."""
    text = text[:LONGEST_FOREIGN_TEXT]
    if suspicion(text).score >= QUARANTINE_FROM:
        return ""
    return shortened_line(redact(clean(text)).text, longest)


def reason(text: str) -> str:
    """A reader's explanation of the relevance; empty unless it is a few plain words."""
    line = harmless(text, LONGEST_REASON)
    return "" if _ADDRESS.search(line) or _COMMAND.search(line) else line.replace('"', "'")


def fault(text: str) -> str:
    """The error message of a server, made safe to show."""
    line = harmless(text, LONGEST_FAULT).rstrip(".")
    return UNTOLD if not line or _ADDRESS.search(line) else line


def safe_fault(error: RlmError) -> RlmError:
    """The same error with safe text: its message may come from the server."""
    kind = RlmConnectionFailed if isinstance(error, RlmConnectionFailed) else RlmToolFailed
    words = fault(error.message)
    if words == UNTOLD:  # the part before the first colon is our own
        words = f"{error.message.partition(':')[0]}: {UNTOLD}"
    return kind(f"{words}.", advice=harmless(error.advice, LONGEST_FAULT))


MOST_FINDINGS = 20
LONGEST_FINDING_EXCERPT = 2_000  # characters, of which the answering part is shown
LONGEST_ANSWER = 20_000  # characters of an answer that are parsed
MOST_VERDICTS = 10  # verdicts of one answer
MOST_BRACKETS = 8  # brackets at which JSON is tried
SHORTEST_EXCERPT = 12  # characters; shorter excerpts occur everywhere
ALIKE = 0.6  # share of an excerpt's words from which on a text counts as its source
ROLES = {Role.USER: "user", Role.CLAUDE: "assistant", Role.TOOL: "tool", Role.RESULT: "result"}
SPEECH = ("user", "assistant")
# The requested field names, and the synonyms that models use.
_RELEVANCE = ("relevance", "relevance_score", "score")
_EXCERPT = ("excerpt", "relevant_excerpt", "quote")
_WHY = ("why", "relevance_explanation", "explanation", "reason")
_LINE = ("line", "line_number")
_OMISSION = re.compile(r"\s*(?:\[\.{3}\]|\[…\]|\.{3,}|…)\s*")
_PLAIN = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "\u00a0": " ", "`": "'", '"': "'"})


class TranscriptRow(NamedTuple):
    """One step of a conversation in the form that readers get."""

    role: str
    content: str
    line: int
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReaderVerdict:
    """What a reader says about a text it was given."""

    relevance: float
    excerpt: str = ""
    why: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ReaderFinding:
    """A conversation (by its row in the index) that answers, the answering words, and their line."""

    row: int
    relevance: float
    why: str
    excerpt: str
    line: int | None = None
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReaderReport:
    """The result of reading.

    With an error or a notice, the results are those until then; `unread` says what there was no room for.
    """

    results: tuple[ReaderFinding, ...] = ()
    error: RlmError | None = None
    notice: str = ""
    by: str = ""  # the reader
    read: int = 0  # number of conversations
    unread: str = ""

    @property
    def failed(self) -> bool:
        """Whether there are no results because of an error or a notice, so that another reader must answer."""
        return not self.results and bool(self.error or self.notice)


def rows_of(passages: Iterable[Passage], *, redacting: bool) -> list[TranscriptRow]:
    """The utterances of the passages, in order. With `redacting`, secrets are removed even if the index kept them."""
    rows: list[TranscriptRow] = []
    for passage in passages:
        if passage.head:
            continue
        for utterance in passage.utterances:
            text = f"{utterance.tool}: {utterance.text}" if utterance.tool else utterance.text
            text = redact(text).text if redacting else text
            rows.append(TranscriptRow(ROLES[utterance.role], text, utterance.line, utterance.timestamp))
    return rows


def row_value(row: TranscriptRow) -> dict[str, Any]:
    """The row as a JSON object."""
    when = row.timestamp.isoformat() if row.timestamp else None
    return {"role": row.role, "content": row.content, "timestamp": when, "line": row.line}


def json_in(answer: str) -> Any:
    """The JSON in an answer, with any text and fences around it; None if there is none near its start."""
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
            isinstance(value, list) and any(isinstance(item, dict) for item in value)
        ):
            return value
    return None


def verdicts_in(value: Any) -> list[ReaderVerdict]:
    """The verdicts in an answer that holds one or several; anything else is skipped."""
    values = value[:MOST_VERDICTS] if isinstance(value, list) else [value]
    return [verdict for item in values if (verdict := verdict_of(item)) is not None]


def verdict_of(value: Any) -> ReaderVerdict | None:
    """Parse one verdict; None if it has no relevance."""
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
    """Check a verdict against the transcript; None if it isn't relevant.

    The excerpt is always text from `rows`: the reader's own if it occurs there, else the text with most of
    the `wanted` words. If no text has any of them it is no finding, unless `anyhow`.
    """
    if verdict.relevance <= above:
        return None
    place = _standing(verdict, rows) or _nearest(verdict, rows) or _likeliest(rows, wanted, anyhow=anyhow)
    if place is None:
        return None
    excerpt, source = place
    return ReaderFinding(
        row,
        verdict.relevance,
        reason(verdict.why),
        shortened_line(excerpt, LONGEST_FINDING_EXCERPT),
        source.line,
        source.timestamp,
    )


def best_findings(
    findings: Iterable[ReaderFinding], conversations: Mapping[int, IndexedConversation]
) -> tuple[ReaderFinding, ...]:
    """The most relevant findings first, one per session."""
    best_by_session: dict[str, ReaderFinding] = {}
    for finding in sorted(findings, key=lambda one: -one.relevance):
        best_by_session.setdefault(conversations[finding.row].belongs_to, finding)
    return tuple(best_by_session.values())[:MOST_FINDINGS]


def _first(value: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _share(value: Any) -> float | None:
    """A number from 0 to 1, also if it is given as text or in percent."""
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
    if value >= scale:  # also for values that are too large to divide
        return 1.0
    return value / scale if value > 0 else 0.0


def _standing(verdict: ReaderVerdict, rows: Sequence[TranscriptRow]) -> tuple[str, TranscriptRow] | None:
    """The excerpt where it occurs word for word, apart from blanks, quotation marks and omissions."""
    quotation = max((_folded(piece) for piece in _OMISSION.split(verdict.excerpt)), key=len, default="")
    if len(quotation) < SHORTEST_EXCERPT:
        return None
    for row in _named_first(verdict.line, rows):
        text = " ".join(row.content.split())
        start = _folded(text).find(quotation)
        if start >= 0:
            return text[start : start + len(quotation)], row
    return None


def _nearest(verdict: ReaderVerdict, rows: Sequence[TranscriptRow]) -> tuple[str, TranscriptRow] | None:
    """The text on the line that the verdict names, else the one that shares enough of the excerpt's words."""
    words = content_words(verdict.excerpt)
    on_line = [row for row in rows if row.line == verdict.line]
    shared, nearest = _most_shared(on_line or rows, words)
    if nearest is None or (not on_line and shared < max(2.0, ALIKE * len(words))):
        return None
    return nearest.content, nearest


def _likeliest(
    rows: Sequence[TranscriptRow], wanted: Collection[str], *, anyhow: bool
) -> tuple[str, TranscriptRow] | None:
    shared, likeliest = _most_shared(rows, wanted)
    return (likeliest.content, likeliest) if likeliest is not None and (shared or anyhow) else None


def _most_shared(rows: Sequence[TranscriptRow], words: Collection[str]) -> tuple[int, TranscriptRow | None]:
    """The first row with most of the words, and how many it has."""
    counts = [len(content_words(row.content).intersection(words)) for row in rows]
    return (max(counts), rows[counts.index(max(counts))]) if counts else (0, None)


def _named_first(line: int | None, rows: Sequence[TranscriptRow]) -> Iterator[TranscriptRow]:
    yield from (row for row in rows if row.line == line)
    yield from (row for row in rows if row.line != line)


def _folded(text: str) -> str:
    """Normalize blanks and quotation marks. The length stays that of the text with single blanks."""
    return " ".join(text.split()).translate(_PLAIN)

"""What those have in common who read conversations before they answer: what is read, what they say of it, and whether that is so.

Whoever reads is a language model, and what it reads was said by anybody: an excerpt is only believed that really stands there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from mindhold.engine.history.excerpt import cut
from mindhold.engine.history.foreign import reason
from mindhold.engine.quoting import answered
from mindhold.engine.text.overlap import content_words
from mindhold.engine.text.redact import redact
from mindhold.model.errors import RlmError
from mindhold.ports.history import Conversation, Passage
from mindhold.ports.transcripts import Role

MOST_FINDINGS = 20
LONGEST_EXCERPT = 2_000  # of which the stretch is shown that answers
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


class Row(NamedTuple):
    """What was said or done, as it is handed over."""

    role: str
    content: str
    line: int
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reader says about something that it was given."""

    relevance: float
    excerpt: str = ""
    why: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A conversation (by its row in the index) that answers, the words that do, and the line that they stand on."""

    row: int
    relevance: float
    why: str
    excerpt: str
    line: int | None = None
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of it. With an error or a notice the results are those that there were until then; `unread` tells what there was
    no room for."""

    results: tuple[Finding, ...] = ()
    error: RlmError | None = None
    notice: str = ""
    by: str = ""  # who read
    read: int = 0  # conversations
    unread: str = ""

    @property
    def failed(self) -> bool:
        """Nothing came of it: somebody else must answer."""
        return not self.results and bool(self.error or self.notice)


def rows_of(passages: Iterable[Passage], *, redacting: bool) -> list[Row]:
    """What was said in them, in order. What leaves for a model bears no secrets, whatever was so when it was indexed."""
    rows: list[Row] = []
    for passage in passages:
        if passage.head:
            continue
        for one in passage.utterances:
            text = f"{one.tool}: {one.text}" if one.tool else one.text
            text = redact(text).text if redacting else text
            rows.append(Row(ROLES[one.role], text, one.line, one.timestamp))
    return rows


def row_value(row: Row) -> dict[str, Any]:
    """As it stands in a line of JSON."""
    when = row.timestamp.isoformat() if row.timestamp else None
    return {"role": row.role, "content": row.content, "timestamp": when, "line": row.line}


def json_in(answer: str) -> Any:
    """The JSON that an answer is or holds, with whatever words and fences around it; None when there is none near its start."""
    answer = answer[:LONGEST_ANSWER]
    value = answered(answer)
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


def verdicts_in(value: Any) -> list[Verdict]:
    """Of an answer that is one or several; what is none is passed over."""
    values = value[:MOST_VERDICTS] if isinstance(value, list) else [value]
    return [verdict for one in values if (verdict := verdict_of(one)) is not None]


def verdict_of(value: Any) -> Verdict | None:
    """None when it says nothing of relevance."""
    if not isinstance(value, Mapping):
        return None
    relevance = _share(_first(value, _RELEVANCE))
    if relevance is None:
        return None
    excerpt, why, line = _first(value, _EXCERPT), _first(value, _WHY), _first(value, _LINE)
    return Verdict(
        relevance,
        excerpt[:LONGEST_EXCERPT] if isinstance(excerpt, str) else "",
        why[:LONGEST_EXCERPT] if isinstance(why, str) else "",
        line if type(line) is int else None,
    )


def checked(
    verdict: Verdict,
    row: int,
    rows: Sequence[Row],
    *,
    above: float,
    wanted: Collection[str],
    anyhow: bool = False,
) -> Finding | None:
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
    return Finding(
        row,
        verdict.relevance,
        reason(verdict.why),
        cut(excerpt, LONGEST_EXCERPT),
        found.line,
        found.timestamp,
    )


def best(findings: Iterable[Finding], conversations: Mapping[int, Conversation]) -> tuple[Finding, ...]:
    """The most relevant first, one of each session that a person would name."""
    chosen: dict[str, Finding] = {}
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


def _standing(verdict: Verdict, rows: Sequence[Row]) -> tuple[str, Row] | None:
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


def _nearest(verdict: Verdict, rows: Sequence[Row]) -> tuple[str, Row] | None:
    """What stands on the line that it names, else what has most of the excerpt's words, if that is most of them."""
    words = content_words(verdict.excerpt)
    named = [row for row in rows if row.line == verdict.line]
    scored = [(len(words & content_words(row.content)), row) for row in named or rows]
    most, nearest = max(scored, key=lambda one: one[0], default=(0, None))
    if nearest is None or (not named and most < max(2.0, ALIKE * len(words))):
        return None
    return nearest.content, nearest


def _likeliest(rows: Sequence[Row], wanted: Collection[str], *, anyhow: bool) -> tuple[str, Row] | None:
    scored = [(len(content_words(row.content).intersection(wanted)), row) for row in rows]
    most, likeliest = max(scored, key=lambda one: one[0], default=(0, None))
    return (likeliest.content, likeliest) if likeliest is not None and (most or anyhow) else None


def _named_first(line: int | None, rows: Sequence[Row]) -> Iterator[Row]:
    yield from (row for row in rows if row.line == line)
    yield from (row for row in rows if row.line != line)


def _folded(text: str) -> str:
    """Of the same length as the text, once its blanks are single ones."""
    return " ".join(text.split()).translate(_PLAIN)

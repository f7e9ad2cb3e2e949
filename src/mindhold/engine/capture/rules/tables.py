"""Tables that say what the parts of something are: a row, a statement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mindhold.engine.capture.rules.candidate import LONGEST, Candidate
from mindhold.engine.capture.rules.speech import plain, spoken
from mindhold.engine.capture.rules.standing import hedged, tidy
from mindhold.engine.text.expression import Expression
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, Step

MOST_ROWS = 8
MOST_CELLS = 4

_ROW = Expression(r"^\s*\|(.+)\|\s*$")
_RULE = Expression(r"^[\s|:-]+$")
_OF_PARTS = Expression(
    r"mechanism|purpose|location|\bfiles?\b|responsib|used by|description|\brole\b|\breturns?\b|\buses\b|what it does|\bwhere\b|component|module|meaning|stores?\b|\bpath\b|behaviou?r|default|contains|handles|\bowner\b|endpoint|command|runs? on",
    re.IGNORECASE,
)
_OF_THE_MOMENT = Expression(
    r"status|result|before|after|pass|fail|priority|severity|effort|risk|option|pros|cons|count|time\b|fix|issue|finding|line|change|diff|test|step|phase|task|\bpr\b|score|verdict|impact|old|new|current|proposed|approach|example|scenario|cost|coverage",
    re.IGNORECASE,
)

_COMPARED = Expression(r"(?:missing|yes|no|n/a|none|\W{0,2})", re.IGNORECASE)
# A row is a statement by its verb: "Serves HTTP", "is read by"; a row of names alone is none.
_SAYS = Expression(
    r"^(?:(?:only|also|always|never|first|then) )?(?!(?:files|tests|names|lines|types|commands|bytes|settings|users|options|flags|docs|headers|tokens|events|errors|results|fields|keys|values|less|process|access|class|address|status|https|css|js|os|yes|this|its|as|is|has|was|alias|bus)\b)[a-z]+s\b"
    r"|\b(?:is|are|has|have|can|must|will|does|uses?|calls?|reads?|writes?|stores?|returns?|sends?|runs?|loads?|holds?|handles?|contains?|needs?|keeps?|used (?:by|for|to|in)|called (?:by|from|in)|stored (?:in|as|at)|read (?:by|from))\b",
    re.IGNORECASE,
)
_TEST = Expression(r"_test\.|\.test\.|\.spec\.|\btest_|\btests?\b")
_EXAMPLE = Expression(r"\b(?:example|e\.g\.|for instance)\b", re.IGNORECASE)


def tabled(steps: Sequence[Step]) -> Iterator[Candidate]:
    """Rows of tables whose heads speak of parts, not of how things stand."""
    for step in steps:
        if step.role != Role.CLAUDE or step.aside or "|" not in step.text:
            continue
        for head, rows in _tables(spoken(step)):
            if any(_COMPARED.fullmatch(cell) for row in rows for cell in row):
                continue
            if len(rows) <= MOST_ROWS and 2 <= len(head) <= MOST_CELLS and _OF_PARTS.search(" ".join(head)):
                yield from (
                    Candidate(Kind.ARCHITECTURE, text, step.line, 0.62)
                    for row in rows
                    if (text := _told(head, row))
                )


def _tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    lines = text.splitlines()
    number = 0
    while number + 2 < len(lines):
        head = _ROW.match(lines[number])
        if head is None or "-" not in lines[number + 1] or not _RULE.match(lines[number + 1]):
            number += 1
            continue
        rows: list[list[str]] = []
        example = any(_EXAMPLE.search(line) for line in lines[max(0, number - 12) : number])
        number += 2
        while number < len(lines) and (row := _ROW.match(lines[number])):
            rows.append(_cells(row[1]))
            number += 1
        if not example:
            yield _cells(head[1]), rows


def _cells(row: str) -> list[str]:
    return [plain(cell).replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)]


def _told(head: Sequence[str], row: Sequence[str]) -> str:
    """ "Component `api`: Purpose serves HTTP." Columns that say how things stand just now are left out."""
    if len(row) != len(head) or not row[0] or _TEST.search(row[0]) or "`" not in " ".join(row):
        return ""
    told = [
        f"{name.lower()}: {cell.rstrip('.')}"
        for name, cell in zip(head[1:], row[1:], strict=True)
        if cell and not _OF_THE_MOMENT.search(name)
    ]
    text = (
        f"{row[0]} ({head[0].lower()}) - {'; '.join(told)}." if head[0] else f"{row[0]} - {'; '.join(told)}."
    )
    if (
        not told
        or not any(_SAYS.search(cell) for cell in row[1:])
        or hedged(text)
        or not 24 <= len(text) <= LONGEST
        or _OF_THE_MOMENT.search(head[0])
    ):
        return ""
    return tidy(text)

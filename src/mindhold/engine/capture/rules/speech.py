"""What was said, sentence by sentence: without code, tables, quoted files and logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mindhold.engine.capture.rules.candidate import LONGEST
from mindhold.engine.capture.rules.standing import announces, dangling, elliptic, hedged, names
from mindhold.engine.text.expression import Expression
from mindhold.ports.transcripts import Role, Step

LONGEST_TURN = 40_000  # characters that are looked at
LONGEST_LEAD = 120
LONGEST_SENTENCE = 600
LONGEST_ABBREVIATION = 40  # with the word before it
LONG = 500  # characters: nobody announces a step in so many
LONGEST_OWN = 1_500  # characters of a turn that is a person's own words
LONGEST_TYPED = 4_000  # a person types less; what is longer was pasted

_FENCE = Expression(r"^[ \t]*(```+|~~~+)[^\n]*\n.*?(?:^[ \t]*\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_QUOTED_BLOCK = Expression(r'"""(?:.*?)(?:"""|\Z)', re.DOTALL)
_TAGGED = Expression(
    r"<(system-reminder|task-notification|persisted-output|example)\b.*?(?:</\1>|\Z)", re.DOTALL
)
_BULLET = Expression(r"^(\s*)(?:[-*+•✅❌✓✔✗⚠️→▸►]+|\d{1,2}[.)]|[a-z][.)])\s+(?:\[[ xX]\]\s+)?(.*)$")
_HEADING = Expression(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*$")
_BOLD_LINE = Expression(r"^\s*(?:\*\*|__)([^*]+?)(?:\*\*|__)\s*:?\s*$")
_LOG = Expression(
    r"^\s*(?:\d+[→|:\t]|\$ |> |❯ |% |\+{1,3} |-{3} |@@|at \S+\(|File \"|Traceback|\d{4}-\d\d-\d\d[T ]\d\d:|\[\d\d:\d\d|---|\||\{|\}|<[/\w]"
    r"|[\w./-]+:\d+(?::\d+)?:|#\d+ |.*[{};]\s*$|(?:import|from|const|let|var|func|def|class|return|if|for) .*[({:;]\s*$)"
)
_LINK = Expression(r"!?\[([^\]\n]*)\]\([^)\s]*\)")
_EMPHASIS = Expression(r"\*\*|__(?=\w)|(?<=\w)__(?!\w)|(?<![\w*])\*(?=[^\s*])|(?<=[^\s*])\*(?![\w*])")
_PICTURE = Expression(r"[\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff]\s*")
_ARROW = Expression(r"\s*[→⇒➜]\s*")
_SENTENCE_END = Expression(
    r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[`*]*[A-Z0-9\uac00-\ud7a3`/.~-])|(?<=[。！？])\s*|(?<=[다요]\.)\s+"
)
# A person begins a sentence in small letters as well.
_TYPED_END = Expression(r"(?<=[a-z0-9)`\"'][.!?])\s+(?=[a-z])")
_ABBREVIATION = Expression(
    r"(?:\b(?:e\.g|i\.e|vs|etc|cf|approx|incl|resp|no|fig|Mr|Dr|St|a\.k\.a)|(?:^|\s)\d{1,2}|\b[A-Z])\.$",
    re.IGNORECASE,
)
# A number that ends a sentence, where others number an item.
_COUNTED = Expression(
    r"(?:[A-Z]\w+|node|python|version|to|of|is|are|was|port|level|than|under|below|least|most|at|over|only|from|until)\s\d{1,2}\.$"
)
_SUBJECT = Expression(r"^(?:the )?`[^`]+`(?:\s*\([^)]*\))?:$", re.IGNORECASE)
_ASIDE = Expression(
    r"^(?:looking at|based on|according to|in|from) [^,]{3,80}, (?=the |an? |`)", re.IGNORECASE
)
_DOING = Expression(
    r"^(?:\w+ed|\w+ is|set|made|rewrote|split)\b|^[\w ]{3,30} (?:resolved|fixed|added|removed|combined|updated|implemented)\b",
    re.IGNORECASE,
)
_REPORTS = Expression(
    r"^\W*(?:done|fixed|complete[d]?|all (?:set|done)|implemented|finished|added|updated|removed|created|summary|review)\b",
    re.IGNORECASE,
)
_PASTED = Expression(
    r"^(?:@@ |\+\+\+ |diff --git|=== )|implement the following plan", re.MULTILINE | re.IGNORECASE
)
_NUMBER = Expression(r"^\d{1,2}[.)]\s+")
_SPECULATIVE = Expression(
    r"\\boptions?\\b|alternative|workaround|idea|possib|could|pros\b|cons\b|recommend|suggest|consider|scenario|example|\\bquestions?\\b|what if|proposal|potential|improvement|"
    r"comparison|risk|before\b|old (?:behavio|flow|way)|current (?:behavio|state|flow)|how to (?:test|verify|reproduce)|feedback|nitpick|minor|concern"
)
_TRYING = Expression(
    r"\b(?:let me|let's|i'll|i need to) (?:also |first |now |just |quickly )*(?:try|check|look|see|verify|test|add some|measure|investigate|confirm|run|set|suppress)\b",
    re.IGNORECASE,
)
_GOES_ON = Expression(
    r"^(?:this|these|it|they) (?!one\b|is (?:the|a) (?:good|great)|looks?\b)[a-z]|^otherwise\b|^or else\b|^(?:그렇지 않으면|안 그러면)",
    re.IGNORECASE,
)
_CODE = Expression(r"`[^`\n]*`")


@dataclass(frozen=True, slots=True)
class Sentence:
    """`closing`: it stands in the last thing that was said before the other one spoke. `section`: under which heading."""

    text: str
    line: int
    role: Role
    closing: bool = False
    bullet: bool = False
    section: str = ""
    aside: bool = False
    tentative: bool = False  # its turn ends with another look or try: nothing was found out yet

    @property
    def speculative(self) -> bool:
        """Under a heading of options, proposals or examples: nothing that is so."""
        return _SPECULATIVE.search(self.section) is not None


@dataclass(slots=True)
class _Block:
    """Lines that belong together: a paragraph, or an item of a list with those below it."""

    text: str
    depth: int
    bullet: bool
    section: str


def sentences(steps: Sequence[Step]) -> Iterator[Sentence]:
    """Of the person and the assistant, in order."""
    for number, step in enumerate(steps):
        if step.role not in (Role.USER, Role.CLAUDE) or pasted(step):
            continue
        closing = step.role == Role.CLAUDE and _is_closing(steps, number)
        yield from said(step, closing=closing)


def said(step: Step, *, closing: bool = False) -> Iterator[Sentence]:
    """What one step says."""
    tentative = _TRYING.search(step.text[-200:]) is not None
    for block in blocks(spoken(step)):
        parts = (
            [block.text]
            if block.bullet and block.text.count(": ") and ";" in block.text
            else split_sentences(block.text, typed=step.role == Role.USER)
        )
        for part in _gone_on(parts):
            text = _NUMBER.sub("", part.strip())
            if text and len(text) <= LONGEST_SENTENCE and not text.endswith(":"):
                yield Sentence(
                    text, step.line, step.role, closing, block.bullet, block.section, step.aside, tentative
                )


def _gone_on(parts: Sequence[str]) -> Iterator[str]:
    """Sentences, each with the one behind it that only makes sense with it: "X uses Y. This avoids Z." """
    held = ""
    for part in parts:
        if (
            held
            and _GOES_ON.match(part)
            and len(held) + len(part) < LONGEST
            and not (hedged(part) or announces(held))
        ):
            held = f"{held} {part}"
            continue
        if held:
            yield held
        held = part
    if held:
        yield held


def spoken(step: Step) -> str:
    """The text without what was not said: code, quotations, what the program put in."""
    text = step.text[:LONGEST_TURN]
    text = _TAGGED.sub("", _FENCE.sub("\n", text))
    if step.role == Role.USER:
        text = _QUOTED_BLOCK.sub("", text)
        lines = text.splitlines()
        logs = sum(_LOG.match(line) is not None for line in lines)
        if logs >= 3 and logs * 2 > len(lines):
            lines = lines[:1]
        text = "\n".join(lines)[:LONGEST_TYPED]
    return text


def pasted(step: Step) -> bool:
    """Whether a person gave more than they would type: a plan, a review, a log."""
    return step.role == Role.USER and (len(step.text) > LONGEST_OWN or _PASTED.search(step.text) is not None)


def blocks(text: str) -> Iterator[_Block]:
    """Paragraphs and items; a line that ends with a colon takes the short items below it along."""
    found: list[_Block] = []
    section = ""
    open_paragraph = False
    for line in text.splitlines():
        heading = _HEADING.match(line) or _BOLD_LINE.match(line)
        bullet = None if heading else _BULLET.match(line)
        if heading:
            section, open_paragraph = plain(heading[1]).lower(), False
        elif bullet:
            depth = 1 + len(bullet[1].expandtabs(4)) // 2
            found.append(_Block(plain(bullet[2]), depth, True, section))
            open_paragraph = True
        elif not line.strip() or _LOG.match(line):
            open_paragraph = False
        elif open_paragraph and found:
            found[-1].text = f"{found[-1].text} {plain(line)}"
        else:
            found.append(_Block(plain(line), 0, False, section))
            open_paragraph = True
    yield from _led(found)


def _led(found: list[_Block]) -> Iterator[_Block]:
    number = 0
    while number < len(found):
        block = found[number]
        own = block.section
        number += 1
        if not block.text.endswith(":"):
            yield block
            continue
        below = number
        while below < len(found) and found[below].bullet and found[below].depth > block.depth:
            below += 1
        *before, lead = split_sentences(block.text)
        joined = _joined(lead, [one.text for one in found[number:below]])
        if joined:
            if before:
                yield _Block(" ".join(before), block.depth, block.bullet, block.section)
            yield _Block(joined, block.depth, True, block.section)
            number = below
        else:
            lead = block.text.rstrip(":").lower()
            for one in found[number:below]:
                if one.section == own and len(lead) < LONGEST_LEAD:
                    one.section = lead
            yield block


def _joined(lead: str, items: Sequence[str]) -> str:
    """A lead that names something with the items below it, as many as a memory holds; empty where it is only a heading."""
    lead = _ASIDE.sub("", lead)
    words = len(lead.split())
    subject = _SUBJECT.match(lead) is not None or (
        words > 1 and all(map(elliptic, items)) and not dangling(lead)
    )
    if not items or not (subject or (words >= 4 and names(f"{lead} {items[0]}") and _DOING.search(lead))):
        return ""
    text = lead
    for number, item in enumerate(items):
        longer = f"{text}{'; ' if number else ' '}{item.rstrip('.')}"
        if len(longer) > LONGEST or item.endswith(":"):
            return text if subject and number >= 2 else ""
        text = longer
    return text


def plain(text: str) -> str:
    """One line without markdown; code keeps its backticks."""
    text = _LINK.sub(r"\1", text)
    kept: list[str] = []
    last = 0
    for code in _CODE.finditer(text):
        kept += [_unmarked(text[last : code.start()]), code[0]]
        last = code.end()
    kept.append(_unmarked(text[last:]))
    return re.sub(r"\s+", " ", "".join(kept)).strip()


def _unmarked(text: str) -> str:
    return _PICTURE.sub("", _EMPHASIS.sub("", _ARROW.sub(" -> ", text)))


def split_sentences(text: str, *, typed: bool = False) -> list[str]:
    """Not inside code, and not behind an abbreviation; `typed` ones may begin small."""
    spans = [match.span() for match in _CODE.finditer(text)]
    ends = [match.span() for match in _SENTENCE_END.finditer(text)]
    if typed:
        ends = sorted([*ends, *(match.span() for match in _TYPED_END.finditer(text))])
    parts: list[str] = []
    begin = 0
    for place, end in ends:
        if any(start < place < stop for start, stop in spans):
            continue
        near = max(begin, place - LONGEST_ABBREVIATION)  # or a line of numbers takes the square of its length
        if _ABBREVIATION.search(text, near, place) and not _COUNTED.search(text, near, place):
            continue
        parts.append(text[begin:end].strip())
        begin = end
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def _is_closing(steps: Sequence[Step], number: int) -> bool:
    """Whether it reports: it says so, or it is long, or nothing but its own further words follow before the person speaks."""
    if len(steps[number].text) >= LONG or _REPORTS.match(steps[number].text):
        return True
    for later in steps[number + 1 :]:
        if later.aside != steps[number].aside:
            continue
        if later.role == Role.USER:
            return True
        if later.role != Role.CLAUDE or later.line != steps[number].line:
            return later.role == Role.CLAUDE and later.line == steps[number].line
    return True

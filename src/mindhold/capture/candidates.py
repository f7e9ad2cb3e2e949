"""The candidates of a conversation: its sentences and events that may be worth keeping, with what is known of each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mindhold.capture.extracted_items import LONGEST, RuleCandidate
from mindhold.capture.rules.sentences import (
    Sentence,
    announces,
    clean_sentence,
    count_names,
    names_in,
)
from mindhold.capture.rules.tool_calls import ToolCall, base_name
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.pattern import LazyPattern, any_case

SHORTEST_TYPED, FEWEST_TYPED_WORDS = 12, 3  # of the person
SHORTEST_JOINED = 6  # characters in a script without spaces
FEWEST_WORDS = 6  # of the assistant
# Of two rules that are equally sure of a text, the earlier kind counts.
KIND_ORDER = (
    Kind.PREFERENCE,
    Kind.DECISION,
    Kind.ERROR,
    Kind.GOTCHA,
    Kind.ARCHITECTURE,
    Kind.PATTERN,
    Kind.PROCEDURE,
    Kind.PROGRESS,
    Kind.CONTEXT,
)
_FRAGMENT = tuple("})]>|,;=&")  # no sentence begins so: it is what is left of code
_JOINED = LazyPattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence, or what a rule made of an event. `kind` and `weight` are a rule's; empty if no rule knows it.

    The last fields say what came after it in the conversation.
    """

    content: str
    line: int
    role: Role  # TOOL for an event
    rule: RuleCandidate | None = None
    closing: bool = False
    bullet: bool = False
    section: str = ""
    message: int = 0  # characters of the whole message
    objecting: bool = False
    turns_after: int = 0
    edits_after: int = 0  # of files that it names
    repeated: bool = False  # a later message of the assistant has its names again
    last: bool = False  # it is in the last message
    objected: bool = False  # the person objected to the message
    opening: bool = False  # of the first message of the conversation

    @property
    def kind(self) -> Kind | None:
        return self.rule.kind if self.rule else None

    @property
    def weight(self) -> float:
        return self.rule.weight if self.rule else 0.0


def candidates_in(
    steps: Sequence[TranscriptStep],
    sentences: Sequence[Sentence],
    calls: Sequence[ToolCall],
    rules: Sequence[RuleCandidate],
) -> list[Candidate]:
    """List what rules propose, then the other sentences; a sentence that a rule took comes once."""
    objecting = {step.line for step in steps if step.role is Role.USER and step.objecting}
    lengths = {(step.line, step.role): len(step.text) for step in steps}
    found: dict[str, Candidate] = {}
    for rule in rules:
        if rule.content.startswith(_FRAGMENT):
            continue
        key = rule.content.casefold()
        known = found.get(key)
        if known is None or known.rule is None or _rank(rule) > _rank(known.rule):
            found[key] = Candidate(content=rule.content, line=rule.line, role=Role.TOOL, rule=rule)
    spoken: set[str] = set()
    for sentence in sentences:
        content = _worded(sentence)
        key = content.casefold()
        if not content or key in spoken:
            continue
        spoken.add(key)
        known = found.get(key)
        found[key] = Candidate(
            content=content,
            line=sentence.line,
            role=sentence.role,
            rule=known.rule if known else None,
            closing=sentence.closing,
            bullet=sentence.bullet,
            section=sentence.section,
            message=lengths.get((sentence.line, sentence.role), 0),
            objecting=sentence.line in objecting,
        )
    return list(_with_outcome(list(found.values()), steps, sentences, calls))


def _rank(rule: RuleCandidate) -> tuple[float, int]:
    return rule.weight, -KIND_ORDER.index(rule.kind)


def _worded(sentence: Sentence) -> str:
    """Return the sentence as it would be kept; empty if it says nothing alone, announces a step or asks."""
    if sentence.aside:
        return ""
    text = clean_sentence(sentence.text)
    if len(text) > LONGEST or text.startswith(_FRAGMENT):
        return ""
    words = len(text.split())
    if sentence.role is Role.USER:
        if _JOINED.search(text):
            return text if len(text) >= SHORTEST_JOINED else ""
        return text if len(text) >= SHORTEST_TYPED and words >= FEWEST_TYPED_WORDS else ""
    if announces(sentence.text) or text.endswith(("?", "？")) or sentence.speculative:
        return ""
    if words < FEWEST_WORDS and not (_JOINED.search(text) and len(text) >= 2 * SHORTEST_JOINED):
        return ""
    return text if sentence.closing or count_names(text) else ""


def _with_outcome(
    candidates: Sequence[Candidate],
    steps: Sequence[TranscriptStep],
    sentences: Sequence[Sentence],
    calls: Sequence[ToolCall],
) -> Iterator[Candidate]:
    turns = sorted({step.line for step in steps if step.role is Role.USER and not step.aside})
    last_message = max(
        (step.line for step in steps if step.role is Role.CLAUDE and not step.aside), default=0
    )
    objections = {
        sentence.line
        for sentence in sentences
        if sentence.role is Role.USER and _OBJECTION.match(sentence.text)
    } | {step.line for step in steps if step.role is Role.USER and step.objecting}
    retracted = _retracted(candidates, sentences)
    edits = [(call.line, base_name(call.input)) for call in calls if call.writes and call.input]
    mentions: dict[str, int] = {}  # the last message that has a name
    for sentence in sentences:
        if sentence.role is Role.CLAUDE and sentence.closing:
            for name in names_in(sentence.text):
                mentions[name] = max(mentions.get(name, 0), sentence.line)
    for candidate in candidates:
        names = names_in(candidate.content)
        turn = bisect_right(turns, candidate.line)
        answer = turns[turn] if turn < len(turns) else 0
        yield replace(
            candidate,
            turns_after=len(turns) - turn,
            edits_after=sum(
                line > candidate.line and bool(name) and name in candidate.content for line, name in edits
            ),
            repeated=any(mentions.get(name, 0) > candidate.line for name in names),
            last=candidate.line >= last_message,
            objected=(candidate.role is not Role.USER and answer in objections)
            or candidate.content in retracted,
            opening=turn <= 1,
        )


def _retracted(candidates: Sequence[Candidate], sentences: Sequence[Sentence]) -> set[str]:
    """The choices that the person took back later: each time the last one before."""
    choices = [one for one in candidates if one.role is Role.TOOL and one.kind is Kind.DECISION]
    retracted = set()
    for sentence in sentences:
        if sentence.role is Role.USER and _RETRACTION.search(sentence.text):
            before = [one for one in choices if one.line < sentence.line]
            if before:
                retracted.add(max(before, key=lambda one: one.line).content)
    return retracted


_RETRACTION = any_case(
    r"^(?:(?:hm+|oh|wait|sorry|but|well|ok(?:ay)?|or)[\s,.!]+)*(?:actually\b|on second thoughts?|no,? (?:do|use|take|let's|go with)\b|scrap (?:that|it)|forget (?:that|what i said)"
    r"|moment,|doch (?:lieber|nicht)|en fait|finalement|en realidad|mejor|вообще-то|やっぱり|算了|还是)"
    r"|\b(?:i (?:misread|misunderstood|was wrong|(?:have )?changed my mind|take (?:it|that) back)|habe es mir anders überlegt|j'ai changé d'avis|he cambiado de idea|я передумал\w*)\b|다시 생각해"
)
_OBJECTION = any_case(
    r"^(?:(?:hm+|oh|wait|sorry|but|well|please|ok(?:ay)?|and)[\s,.!]+)*(?:no\b(?! (?:problem|worries|need))|nope|nah|wrong|incorrect|don't|do not|revert|undo|not |stop|why (?:did|do|not|are)"
    r"|i (?:said|asked|told|meant|don't|didn't|wanted|would rather|disagree)|i'd (?:rather|prefer)|that'?s (?:wrong|not)|rather|instead|go back|actually|we (?:don't|never|can't)"
    r"|nein|nicht|falsch|non\b|pas |no,|не |нет|いや|違|不是|不对|别|아니|되돌)"
)

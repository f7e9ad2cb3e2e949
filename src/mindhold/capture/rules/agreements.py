"""Decisions by a word or two ("yes, do that", "2"), read with the offer that they answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mindhold.capture.items import LONGEST, RuleCandidate
from mindhold.capture.rules.sentences import (
    asks,
    blocks,
    dangling,
    hedged,
    names,
    pasted,
    plain,
    split_sentences,
    spoken,
    stands_alone,
    telling,
    tidy,
)
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.pattern import LazyPattern
from mindhold.text.redaction import redact

MOST_OPTIONS = 5
LONGEST_ABOUT = 140
THIN = 4  # words: fewer say nothing without the question that they answer

_RECOMMENDS = LazyPattern(
    r"^(?:(?:so|overall|in short|here|personally),? |(?:for|given) [^,]{2,40}, ){0,2}(?:i(?:'d| would)?(?: strongly| personally)? (?:recommend|suggest|propose|advise|go with|choose|pick|use|lean towards?)"
    r"|my (?:recommendation|suggestion|proposal|advice|vote|pick|choice)(?: here)?(?: is| would be|:)|(?:recommendation|suggestion|proposal|recommended)\s*:)\s+(?P<what>.+)$",
    re.IGNORECASE,
)
_TO_DO = LazyPattern(r"^(?:that )?(?:we|you)(?: should)? |^to (?=\w)|^that (?=\w)", re.IGNORECASE)
_DOING = LazyPattern(
    r"^(?:not )?\w+ing\b|^(?:use|keep|store|put|move|add|drop|remove|split|write|make|let|have|go|switch|replace|cache|run|build|call|name|start|stick|avoid|leave|set|pin|merge|hash|create|define|expose|return|wrap|extract|rename|migrate|adopt|deploy|host|do|not)\b",
    re.IGNORECASE,
)
_LOOSE = LazyPattern(r"\b(?:option|approach|number|choice) (?:[1-9a-d]|one|two|three)\b", re.IGNORECASE)
# Questions that only ask for leave to go on with what was recommended.
_FOR_LEAVE = LazyPattern(
    r"^(?:so,? )?(?:(?:shall|should|may|can) (?:i|we)|(?:do you )?want me to|would you like me to|ok(?:ay)? (?:to|if i)) (?:go ahead|proceed|continue|do (?:it|that|this|so)|start|implement (?:it|that|this)|set (?:it|that|this) up|make (?:it|that|this|the) \w+|apply (?:it|that|this)|build (?:it|that)|go with (?:it|that|this))\b[^?]*\?$"
    r"|^(?:what do you think|does that (?:sound|work|make sense|look)|(?:is|are) (?:that|this|you) (?:ok|fine|good|alright|acceptable)|sounds? (?:good|ok|right)|ok(?:ay)?|agreed?|good|deal|any objections|do you agree|thoughts|what would you (?:like|prefer)|which (?:one )?(?:do|would) you (?:prefer|like))\b[^?]*\?$",
    re.IGNORECASE,
)
_WHICH = LazyPattern(
    r"\b(?:which|prefer|options?|choose|pick|approach|would you like)\b[^?]*\?", re.IGNORECASE
)
_OPTION = LazyPattern(
    r"^\s*(?:[-*]\s*)?(?:\*\*)?(?:option |approach )?([1-9]|[a-dA-D])(?:\*\*)?[.):]\s+(.+)$",
    re.IGNORECASE | re.MULTILINE,
)
_ASKING = LazyPattern(r"^(?:which|what|where|how|should|shall|do|does|is|can|who|when)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Offer:
    """Plain values: it is carried to the next call. `lead` stands before the question, `about` is what the person had asked."""

    proposal: str = ""
    question: str = ""
    lead: str = ""
    about: str = ""
    options: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        texts = {"proposal": self.proposal, "question": self.question, "lead": self.lead, "about": self.about}
        told: dict[str, Any] = {name: redact(text).text for name, text in texts.items() if text}
        if self.options:
            told["options"] = [[mark, redact(text).text] for mark, text in self.options]
        return told

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offer:
        """Raises TypeError, ValueError, AttributeError for what is none."""
        return cls(
            proposal=str(value.get("proposal", "")),
            question=str(value.get("question", "")),
            lead=str(value.get("lead", "")),
            about=str(value.get("about", "")),
            options=tuple((str(mark), str(text)) for mark, text in value.get("options", ())),
        )


def offer_of(step: TranscriptStep, asked: str) -> Offer | None:
    """What a message of the assistant puts to the person, who had `asked` something; None when it is nothing."""
    told = [part for block in blocks(spoken(step)) for part in split_sentences(block.text)]
    if not told:
        return None
    question = told[-1] if told[-1].endswith("?") and len(told[-1]) <= LONGEST else ""
    lead = told[-2] if question and len(told) > 1 else ""
    offer = Offer(
        proposal=_recommended(told) if not question or _FOR_LEAVE.match(question) else "",
        question=question,
        lead=lead if len(lead) <= LONGEST and not lead.endswith((":", "?")) else "",
        about=asked,
        options=_options(step.text) if _WHICH.search(step.text[-400:]) else (),
    )
    return offer if offer.proposal or offer.question or offer.options else None


def asked_in(step: TranscriptStep) -> str:
    """The question of a person's message that a bare answer is understood by; empty where there is none."""
    for part in reversed(split_sentences(plain(spoken(step)), typed=True)):
        text = tidy(part)
        if (part.endswith("?") or _ASKING.match(text)) and len(text) <= LONGEST_ABOUT:
            text = f"{text.rstrip('.?! ')}?"
            return text if len(text.split()) >= THIN and not dangling(text.replace("Which", "The")) else ""
    return ""


def _recommended(told: list[str]) -> str:
    """As something to do: "use PostgreSQL for the orders, because payments need transactions"."""
    for sentence in told:
        found = _RECOMMENDS.match(tidy(sentence))
        if not found:
            continue
        what = _TO_DO.sub("", found["what"]).strip().rstrip(".")
        if hedged(what) or dangling(what) or _LOOSE.search(what) or len(what) > LONGEST - 20:
            return ""
        return what if _DOING.match(what) else f"use {what}"
    return ""


def _options(text: str) -> tuple[tuple[str, str], ...]:
    """Those that stand last are asked about."""
    found: dict[str, str] = {}
    for option in reversed(list(_OPTION.finditer(text))):
        told = tidy(plain(option[2]))
        if (names(told) or len(told.split()) > THIN) and not re.search(r"\bI\b", told):
            found.setdefault(option[1].lower(), told[:LONGEST])
    return tuple(list(found.items())[:MOST_OPTIONS])


def stands(text: str) -> bool:
    """Whether what was agreed to can be understood by itself."""
    return stands_alone(f"Agreed: {text}.", fewest=3) and not dangling(text)


LONGEST_ANSWER = 160  # characters
MOST_PICKED = 6  # words that name what is picked

_YES = LazyPattern(
    r"^(?:(?:perfect|great|nice|cool|good|awesome|alright|excellent|right|ah|oh)[\s,.!]+)*(?:yes|yeah|yep|yup|sure|ok(?:ay)?|please(?: do)?|go (?:ahead|for it)|(?:let's |please )?do (?:it|that|this|so)|sounds (?:good|great|right)(?: to me)?|correct|exactly|absolutely|definitely|agreed|i agree|good idea|works for me|that works|makes sense|네|응|좋아요?|그래)"
    r"(?:[\s,.!]*(?:yes|please|let's|do (?:it|that|this|so)|go (?:ahead|for it)|with (?:it|that)|thanks?|sounds (?:good|great)|agreed|then|i agree))*[\s,.!]*$",
    re.IGNORECASE,
)
_BUT = LazyPattern(
    r"\b(?:but|except|instead|however|only if|rather|not|don't|although)\b|(?:하지만|말고)", re.IGNORECASE
)
_PROPOSED = LazyPattern(
    r"^(?:should i|shall i|should we|shall we|(?:do you )?want me to|would you like me to|do you want me to) ((?:(?! or )[^?])+)\?$",
    re.IGNORECASE,
)
_MERE_STEP = LazyPattern(
    r"^(?:also )?(?:run|commit|push|merg|check|continu|proceed|review|look|show|explain|start|open|creat(?:e|ing) a (?:pr|commit|branch)|test|verify|investigat|go(?:ing)?\b(?! with)|mov(?:e|ing) on|read|walk|help|try|begin|look|wait|ask)(?:e|ing|ning|ting|ying)?\b",
    re.IGNORECASE,
)
_BY = LazyPattern(r"^\w+ (?:this|that|it|these|them)(?: \w+)? by (\w+ing .+)$", re.IGNORECASE)
_POINTING = LazyPattern(r"\b(?:this|that|these|those|it|them)\b", re.IGNORECASE)
_REASON = LazyPattern(r"\b(?:because|since|so that|so|which|as)\b|;", re.IGNORECASE)
_ASSENT = r"(?:(?:ok(?:ay)?|yes|yeah|sure|great|good|perfect|alright|right|fine|agreed|cool|nice|then|please|so)[\s,.!]+)*"
_GOES_WITH = LazyPattern(
    rf"^{_ASSENT}(?:(?:let's|we'll|we will|i'll|i'd|i would|i|we)\s+)?(?:(?:go|going|stick|stay) (?:with|for)|use|take|choose|pick|prefer|do)\s+(?P<what>[^,;]+?)(?:\s+(?:then|please|for now))*(?P<why>(?:,| because| since| as)\s.+)?[.!]*$",
    re.IGNORECASE,
)
_PICKS = LazyPattern(
    rf"^{_ASSENT}(?:the\s+)?(?P<what>[^,;.!]+?)(?:\s+(?:please|then|it is|is (?:fine|better|good|enough)))*(?P<why>(?:,| because| since| as)\s.+)?[.!]*$",
    re.IGNORECASE,
)
_PLACED = LazyPattern(
    r"^(?:the )?(?:first|second|third|former|latter|last)(?: one| option| way)?$", re.IGNORECASE
)
_CHOSE = LazyPattern(
    r"^(?:(?:ok(?:ay)?|yes|yeah|sure|i(?:'d| would)? (?:like|prefer|choose|pick|say|want)|let's|go(?:ing)?|with|do|use|try|the|please|i'll take|take|,|\.)\s*)*(?:option |number |choice |approach |#)?([1-9]|[a-d])(?:[).,! ]|$)",
    re.IGNORECASE,
)
_OF_FACT = LazyPattern(
    r"^(?:did|is|are|was|were|does|has|have|had|do you (?!want|prefer)\w+|can|could)\b", re.IGNORECASE
)
_STEPPING = LazyPattern(
    r"\b(?:now|first|later|next|continue|stop|commit|push|wait|start|proceed|again|this|that|these|those|merge|review|yes|no|you)\b",
    re.IGNORECASE,
)


def agreements(
    steps: Sequence[TranscriptStep], offer: Offer | None
) -> tuple[dict[int, RuleCandidate], Offer | None]:
    """By the line of the answer; and what the last message puts to the person, for the next call. `offer` is the last call's."""
    found: dict[int, RuleCandidate] = {}
    asked = offer.about if offer else ""
    said: TranscriptStep | None = None
    for step in steps:
        if step.aside:
            continue
        if step.role == Role.CLAUDE:
            said = step
        elif step.role == Role.USER:
            if said is not None:
                offer, said = offer_of(said, asked), None
            if offer and not pasted(step) and (content := agreed(plain(spoken(step)), offer)):
                found[step.line] = RuleCandidate(Kind.DECISION, content, step.line, 0.85)
            asked, offer = asked_in(step), None
    if said is not None:
        offer = offer_of(said, asked)
    elif offer is None and asked:
        offer = Offer(about=asked)  # the answer is still to come
    return found, offer


def agreed(answer: str, offer: Offer) -> str:
    """What an answer decides, in words that stand by themselves; empty when it decides nothing."""
    answer, *rest = split_sentences(answer.strip(), typed=True) or [""]
    if not answer or len(answer) > LONGEST_ANSWER or answer.endswith("?"):
        return ""
    if offer.options and (content := _numbered(answer, offer)):
        return content
    if _YES.match(answer) and not _BUT.search(" ".join(rest)):
        return _to_the_question(offer) or _to_the_proposal(offer)
    return _picked(answer, offer)


def _to_the_question(offer: Offer) -> str:
    """ "Should I remove the unused X?" - "yes"."""
    found = _PROPOSED.match(offer.question)
    if not found or _MERE_STEP.match(found[1]) or not names(found[1]) or len(found[1]) > LONGEST - 20:
        return ""
    content = f"Agreed to {found[1]}."
    if by := _BY.match(found[1]):  # "clean this up by removing X"
        return f"Agreed on {by[1]}."
    if not _POINTING.search(found[1]):
        return content
    lead = tidy(offer.lead)
    whole = f"{lead} {content}"
    return whole if offer.lead and stands_alone(lead) and len(whole) <= LONGEST else ""


def _to_the_proposal(offer: Offer) -> str:
    what = offer.proposal
    if not what or _MERE_STEP.match(what):
        return ""
    if (
        stands(what)
        and len(what.split()) > THIN
        and not _POINTING.search(_REASON.sub("\n", what).split("\n")[0])
    ):
        return f"Agreed: {what}."
    whole = f"{offer.about} Agreed: {what}."
    return whole if offer.about and len(whole) <= LONGEST and telling(what) else ""


def _picked(answer: str, offer: Offer) -> str:
    """ "Let's go with PostgreSQL.", "Redis please, cookies are too small": where that was proposed, or asked about."""
    for form in (_GOES_WITH, _PICKS):
        found = form.match(answer)
        if not found or len(found["what"].split()) > MOST_PICKED or asks(answer):
            continue
        what, why = found["what"].strip(), (found["why"] or "").rstrip(".! ")
        if not why and _within(what, offer.proposal) and (content := _to_the_proposal(offer)):
            return content
        if content := _of_the_question(what, why, offer):
            return content
    return ""


def _of_the_question(what: str, why: str, offer: Offer) -> str:
    question = offer.question
    alternatives = question.lower().count(" or ")
    if (
        not alternatives
        or " or " in what
        or _STEPPING.search(question)
        or _OF_FACT.match(question)
        or not telling(f"It is {question}")
    ):
        return ""
    if not (_within(what, question) or (alternatives == 1 and _PLACED.match(what))):
        return ""
    if len(question.split()) <= THIN:  # "Redis or cookies?"
        lead = tidy(offer.lead) if offer.lead else offer.about
        question = f"{lead} {question}".strip() if lead and len(lead) < LONGEST // 2 else question
    content = f"{question[0].upper()}{question[1:]} Chosen: {what}{why}."
    return content if len(content) <= LONGEST else ""


def _numbered(answer: str, offer: Offer) -> str:
    """ "let's go with 2", where the assistant had numbered what it offered."""
    found = _CHOSE.match(answer)
    if not found or len(answer) > 80:
        return ""
    told = dict(offer.options).get(found[1].lower(), "")
    return f"Chosen: {told}"[:LONGEST] if told else ""


def _within(what: str, text: str) -> bool:
    """Whether all that is named was spoken of."""
    named = set(lexemes(what)) - stop_lexemes()
    return bool(named) and named <= set(lexemes(text))

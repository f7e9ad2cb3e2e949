"""Decisions by a word or two: "yes, do that", "let's go with Redis", "2". What was agreed to is taken from who proposed it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mindhold.engine.capture.rules.candidate import LONGEST, Candidate
from mindhold.engine.capture.rules.manner import asks, telling
from mindhold.engine.capture.rules.offers import THIN, Offer, asked_in, offer_of, stands
from mindhold.engine.capture.rules.speech import pasted, plain, split_sentences, spoken
from mindhold.engine.capture.rules.standing import names, stands_alone, tidy
from mindhold.engine.text.expression import Expression
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, Step

LONGEST_ANSWER = 160  # characters
MOST_PICKED = 6  # words that name what is picked

_YES = Expression(
    r"^(?:(?:perfect|great|nice|cool|good|awesome|alright|excellent|right|ah|oh)[\s,.!]+)*(?:yes|yeah|yep|yup|sure|ok(?:ay)?|please(?: do)?|go (?:ahead|for it)|(?:let's |please )?do (?:it|that|this|so)|sounds (?:good|great|right)(?: to me)?|correct|exactly|absolutely|definitely|agreed|i agree|good idea|works for me|that works|makes sense|네|응|좋아요?|그래)"
    r"(?:[\s,.!]*(?:yes|please|let's|do (?:it|that|this|so)|go (?:ahead|for it)|with (?:it|that)|thanks?|sounds (?:good|great)|agreed|then|i agree))*[\s,.!]*$",
    re.IGNORECASE,
)
_BUT = Expression(
    r"\b(?:but|except|instead|however|only if|rather|not|don't|although)\b|(?:하지만|말고)", re.IGNORECASE
)
_PROPOSED = Expression(
    r"^(?:should i|shall i|should we|shall we|(?:do you )?want me to|would you like me to|do you want me to) ((?:(?! or )[^?])+)\?$",
    re.IGNORECASE,
)
_MERE_STEP = Expression(
    r"^(?:also )?(?:run|commit|push|merg|check|continu|proceed|review|look|show|explain|start|open|creat(?:e|ing) a (?:pr|commit|branch)|test|verify|investigat|go(?:ing)?\b(?! with)|mov(?:e|ing) on|read|walk|help|try|begin|look|wait|ask)(?:e|ing|ning|ting|ying)?\b",
    re.IGNORECASE,
)
_BY = Expression(r"^\w+ (?:this|that|it|these|them)(?: \w+)? by (\w+ing .+)$", re.IGNORECASE)
_POINTING = Expression(r"\b(?:this|that|these|those|it|them)\b", re.IGNORECASE)
_REASON = Expression(r"\b(?:because|since|so that|so|which|as)\b|;", re.IGNORECASE)
_ASSENT = r"(?:(?:ok(?:ay)?|yes|yeah|sure|great|good|perfect|alright|right|fine|agreed|cool|nice|then|please|so)[\s,.!]+)*"
_GOES_WITH = Expression(
    rf"^{_ASSENT}(?:(?:let's|we'll|we will|i'll|i'd|i would|i|we)\s+)?(?:(?:go|going|stick|stay) (?:with|for)|use|take|choose|pick|prefer|do)\s+(?P<what>[^,;]+?)(?:\s+(?:then|please|for now))*(?P<why>(?:,| because| since| as)\s.+)?[.!]*$",
    re.IGNORECASE,
)
_PICKS = Expression(
    rf"^{_ASSENT}(?:the\s+)?(?P<what>[^,;.!]+?)(?:\s+(?:please|then|it is|is (?:fine|better|good|enough)))*(?P<why>(?:,| because| since| as)\s.+)?[.!]*$",
    re.IGNORECASE,
)
_PLACED = Expression(
    r"^(?:the )?(?:first|second|third|former|latter|last)(?: one| option| way)?$", re.IGNORECASE
)
_CHOSE = Expression(
    r"^(?:(?:ok(?:ay)?|yes|yeah|sure|i(?:'d| would)? (?:like|prefer|choose|pick|say|want)|let's|go(?:ing)?|with|do|use|try|the|please|i'll take|take|,|\.)\s*)*(?:option |number |choice |approach |#)?([1-9]|[a-d])(?:[).,! ]|$)",
    re.IGNORECASE,
)
_OF_FACT = Expression(
    r"^(?:did|is|are|was|were|does|has|have|had|do you (?!want|prefer)\w+|can|could)\b", re.IGNORECASE
)
_STEPPING = Expression(
    r"\b(?:now|first|later|next|continue|stop|commit|push|wait|start|proceed|again|this|that|these|those|merge|review|yes|no|you)\b",
    re.IGNORECASE,
)


def agreements(steps: Sequence[Step], offer: Offer | None) -> tuple[dict[int, Candidate], Offer | None]:
    """By the line of the answer; and what the last message puts to the person, for the next call. `offer` is the last call's."""
    found: dict[int, Candidate] = {}
    asked = offer.about if offer else ""
    said: Step | None = None
    for step in steps:
        if step.aside:
            continue
        if step.role == Role.CLAUDE:
            said = step
        elif step.role == Role.USER:
            if said is not None:
                offer, said = offer_of(said, asked), None
            if offer and not pasted(step) and (content := agreed(plain(spoken(step)), offer)):
                found[step.line] = Candidate(Kind.DECISION, content, step.line, 0.85)
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

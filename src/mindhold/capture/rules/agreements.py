"""Decisions by a word or two ("yes, do that", "2"), read with the offer that they answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mindhold.capture.extracted_items import LONGEST, RuleCandidate
from mindhold.capture.rules.sentences import (
    clean_sentence,
    count_names,
    is_dangling,
    is_hedged,
    is_pasted,
    is_question,
    is_specific,
    split_blocks,
    split_sentences,
    spoken_text,
    stands_alone,
    strip_markdown,
)
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.pattern import LazyPattern, any_case
from mindhold.text.redaction import redact

MAX_OPTIONS = 5
LONGEST_ABOUT = 140
FEWEST_WORDS = 4  # words: fewer say nothing without the question that they answer

_RECOMMENDS = any_case(
    r"^(?:(?:so|overall|in short|here|personally),? |(?:for|given) [^,]{2,40}, ){0,2}(?:i(?:'d| would)?(?: strongly| personally)? (?:recommend|suggest|propose|advise|go with|choose|pick|use|lean towards?)"
    r"|my (?:recommendation|suggestion|proposal|advice|vote|pick|choice)(?: here)?(?: is| would be|:)|(?:recommendation|suggestion|proposal|recommended)\s*:)\s+(?P<what>.+)$"
)
_TO_DO_PREFIX = any_case(r"^(?:that )?(?:we|you)(?: should)? |^to (?=\w)|^that (?=\w)")
_ACTION = any_case(
    r"^(?:not )?\w+ing\b|^(?:use|keep|store|put|move|add|drop|remove|split|write|make|let|have|go|switch|replace|cache|run|build|call|name|start|stick|avoid|leave|set|pin|merge|hash|create|define|expose|return|wrap|extract|rename|migrate|adopt|deploy|host|do|not)\b"
)
_UNNAMED_OPTION = any_case(r"\b(?:option|approach|number|choice) (?:[1-9a-d]|one|two|three)\b")
# Questions that only ask for permission to do what was recommended.
_PERMISSION_QUESTION = any_case(
    r"^(?:so,? )?(?:(?:shall|should|may|can) (?:i|we)|(?:do you )?want me to|would you like me to|ok(?:ay)? (?:to|if i)) (?:go ahead|proceed|continue|do (?:it|that|this|so)|start|implement (?:it|that|this)|set (?:it|that|this) up|make (?:it|that|this|the) \w+|apply (?:it|that|this)|build (?:it|that)|go with (?:it|that|this))\b[^?]*\?$"
    r"|^(?:what do you think|does that (?:sound|work|make sense|look)|(?:is|are) (?:that|this|you) (?:ok|fine|good|alright|acceptable)|sounds? (?:good|ok|right)|ok(?:ay)?|agreed?|good|deal|any objections|do you agree|thoughts|what would you (?:like|prefer)|which (?:one )?(?:do|would) you (?:prefer|like))\b[^?]*\?$"
)
_WHICH = any_case(r"\b(?:which|prefer|options?|choose|pick|approach|would you like)\b[^?]*\?")
_OPTION = LazyPattern(
    r"^\s*(?:[-*]\s*)?(?:\*\*)?(?:option |approach )?([1-9]|[a-dA-D])(?:\*\*)?[.):]\s+(.+)$",
    re.IGNORECASE | re.MULTILINE,
)
_QUESTION_WORD = any_case(r"^(?:which|what|where|how|should|shall|do|does|is|can|who|when)\b")


@dataclass(frozen=True, slots=True)
class Offer:
    """What the assistant offers, stored as JSON for the next call. `lead` precedes the question, `about` is the user's question."""

    proposal: str = ""
    question: str = ""
    lead: str = ""
    about: str = ""
    options: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        texts = {name: getattr(self, name) for name in _OFFER_TEXTS}
        document: dict[str, Any] = {name: redact(text).text for name, text in texts.items() if text}
        if self.options:
            document["options"] = [[mark, redact(text).text] for mark, text in self.options]
        return document


_OFFER_TEXTS = ("proposal", "question", "lead", "about")


def offer_of(step: TranscriptStep, asked: str) -> Offer | None:
    """Return what a message of the assistant offers to the user, whose question was `asked`; None when it offers nothing."""
    parts = [part for block in split_blocks(spoken_text(step)) for part in split_sentences(block.text)]
    if not parts:
        return None
    question = parts[-1] if parts[-1].endswith("?") and len(parts[-1]) <= LONGEST else ""
    lead = parts[-2] if question and len(parts) > 1 else ""
    offer = Offer(
        proposal=_recommendation(parts) if not question or _PERMISSION_QUESTION.match(question) else "",
        question=question,
        lead=lead if len(lead) <= LONGEST and not lead.endswith((":", "?")) else "",
        about=asked,
        options=_options(step.text) if _WHICH.search(step.text[-400:]) else (),
    )
    return offer if offer.proposal or offer.question or offer.options else None


def question_in(step: TranscriptStep) -> str:
    """Return the question of a user's message that gives a short answer its meaning; empty where there is none."""
    for part in reversed(split_sentences(strip_markdown(spoken_text(step)), typed=True)):
        text = clean_sentence(part)
        if (part.endswith("?") or _QUESTION_WORD.match(text)) and len(text) <= LONGEST_ABOUT:
            text = f"{text.rstrip('.?! ')}?"
            is_clear = len(text.split()) >= FEWEST_WORDS and not is_dangling(text.replace("Which", "The"))
            return text if is_clear else ""
    return ""


def _recommendation(parts: list[str]) -> str:
    """Return the recommendation as something to do: "use PostgreSQL for the orders, because payments need transactions"."""
    for sentence in parts:
        match = _RECOMMENDS.match(clean_sentence(sentence))
        if not match:
            continue
        proposal = _TO_DO_PREFIX.sub("", match["what"]).strip().rstrip(".")
        if (
            is_hedged(proposal)
            or is_dangling(proposal)
            or _UNNAMED_OPTION.search(proposal)
            or len(proposal) > LONGEST - 20
        ):
            return ""
        return proposal if _ACTION.match(proposal) else f"use {proposal}"
    return ""


def _options(text: str) -> tuple[tuple[str, str], ...]:
    """Return the numbered options; of repeated numbers the last counts."""
    options: dict[str, str] = {}
    for option in reversed(list(_OPTION.finditer(text))):
        description = clean_sentence(strip_markdown(option[2]))
        if (count_names(description) or len(description.split()) > FEWEST_WORDS) and not re.search(
            r"\bI\b", description
        ):
            options.setdefault(option[1].lower(), description[:LONGEST])
    return tuple(list(options.items())[:MAX_OPTIONS])


LONGEST_ANSWER = 160  # characters
MAX_CHOICE_WORDS = 6  # words that name the choice

_YES = any_case(
    r"^(?:(?:perfect|great|nice|cool|good|awesome|alright|excellent|right|ah|oh)[\s,.!]+)*(?:yes|yeah|yep|yup|sure|ok(?:ay)?|please(?: do)?|go (?:ahead|for it)|(?:let's |please )?do (?:it|that|this|so)|sounds (?:good|great|right)(?: to me)?|correct|exactly|absolutely|definitely|agreed|i agree|good idea|works for me|that works|makes sense|네|응|좋아요?|그래)"
    r"(?:[\s,.!]*(?:yes|please|let's|do (?:it|that|this|so)|go (?:ahead|for it)|with (?:it|that)|thanks?|sounds (?:good|great)|agreed|then|i agree))*[\s,.!]*$"
)
_BUT = any_case(r"\b(?:but|except|instead|however|only if|rather|not|don't|although)\b|(?:하지만|말고)")
_PROPOSAL_QUESTION = any_case(
    r"^(?:should i|shall i|should we|shall we|(?:do you )?want me to|would you like me to|do you want me to) ((?:(?! or )[^?])+)\?$"
)
_MERE_STEP = any_case(
    r"^(?:also )?(?:run|commit|push|merg|check|continu|proceed|review|look|show|explain|start|open|creat(?:e|ing) a (?:pr|commit|branch)|test|verify|investigat|go(?:ing)?\b(?! with)|mov(?:e|ing) on|read|walk|help|try|begin|look|wait|ask)(?:e|ing|ning|ting|ying)?\b"
)
_BY = any_case(r"^\w+ (?:this|that|it|these|them)(?: \w+)? by (\w+ing .+)$")
_POINTING = any_case(r"\b(?:this|that|these|those|it|them)\b")
_REASON = any_case(r"\b(?:because|since|so that|so|which|as)\b|;")
_ASSENT = r"(?:(?:ok(?:ay)?|yes|yeah|sure|great|good|perfect|alright|right|fine|agreed|cool|nice|then|please|so)[\s,.!]+)*"
_GOES_WITH = any_case(
    rf"^{_ASSENT}(?:(?:let's|we'll|we will|i'll|i'd|i would|i|we)\s+)?(?:(?:go|going|stick|stay) (?:with|for)|use|take|choose|pick|prefer|do)\s+(?P<what>[^,;]+?)(?:\s+(?:then|please|for now))*(?P<why>(?:,| because| since| as)\s.+)?[.!]*$"
)
_PICKS = any_case(
    rf"^{_ASSENT}(?:the\s+)?(?P<what>[^,;.!]+?)(?:\s+(?:please|then|it is|is (?:fine|better|good|enough)))*(?P<why>(?:,| because| since| as)\s.+)?[.!]*$"
)
_BY_POSITION = any_case(r"^(?:the )?(?:first|second|third|former|latter|last)(?: one| option| way)?$")
_NUMBERED_CHOICE = any_case(
    r"^(?:(?:ok(?:ay)?|yes|yeah|sure|i(?:'d| would)? (?:like|prefer|choose|pick|say|want)|let's|go(?:ing)?|with|do|use|try|the|please|i'll take|take|,|\.)\s*)*(?:option |number |choice |approach |#)?([1-9]|[a-d])(?:[).,! ]|$)"
)
_FACT_QUESTION = any_case(r"^(?:did|is|are|was|were|does|has|have|had|do you (?!want|prefer)\w+|can|could)\b")
_STEP_QUESTION = any_case(
    r"\b(?:now|first|later|next|continue|stop|commit|push|wait|start|proceed|again|this|that|these|those|merge|review|yes|no|you)\b"
)


def agreements(
    steps: Sequence[TranscriptStep], offer: Offer | None
) -> tuple[dict[int, RuleCandidate], Offer | None]:
    """Return agreements by the line of the answer, and the last message's offer for the next call; `offer` is the last call's."""
    candidates: dict[int, RuleCandidate] = {}
    asked = offer.about if offer else ""
    message: TranscriptStep | None = None
    for step in steps:
        if step.aside:
            continue
        if step.role == Role.CLAUDE:
            message = step
        elif step.role == Role.USER:
            if message is not None:
                offer, message = offer_of(message, asked), None
            if (
                offer
                and not is_pasted(step)
                and (content := decision_by_answer(strip_markdown(spoken_text(step)), offer))
            ):
                candidates[step.line] = RuleCandidate(Kind.DECISION, content, step.line, 0.85)
            asked, offer = question_in(step), None
    if message is not None:
        offer = offer_of(message, asked)
    elif offer is None and asked:
        offer = Offer(about=asked)  # the answer is still to come
    return candidates, offer


def decision_by_answer(answer: str, offer: Offer) -> str:
    """Return what an answer decides, in words that stand alone; empty when it decides nothing."""
    answer, *rest = split_sentences(answer.strip(), typed=True) or [""]
    if not answer or len(answer) > LONGEST_ANSWER or answer.endswith("?"):
        return ""
    if offer.options and (content := _numbered_choice(answer, offer)):
        return content
    if _YES.match(answer) and not _BUT.search(" ".join(rest)):
        return _agreed_question(offer) or _agreed_proposal(offer)
    return _picked_choice(answer, offer)


def _agreed_question(offer: Offer) -> str:
    """Read a "yes" as agreement to the question: "Should I remove the unused X?" """
    match = _PROPOSAL_QUESTION.match(offer.question)
    if not match or _MERE_STEP.match(match[1]) or not count_names(match[1]) or len(match[1]) > LONGEST - 20:
        return ""
    content = f"Agreed to {match[1]}."
    if by_clause := _BY.match(match[1]):  # "clean this up by removing X"
        return f"Agreed on {by_clause[1]}."
    if not _POINTING.search(match[1]):
        return content
    lead = clean_sentence(offer.lead)
    combined = f"{lead} {content}"
    return combined if offer.lead and stands_alone(lead) and len(combined) <= LONGEST else ""


def _agreed_proposal(offer: Offer) -> str:
    proposal = offer.proposal
    if not proposal or _MERE_STEP.match(proposal):
        return ""
    if (
        stands_alone(f"Agreed: {proposal}.", fewest=3)
        and not is_dangling(proposal)
        and len(proposal.split()) > FEWEST_WORDS
        and not _POINTING.search(_REASON.sub("\n", proposal).split("\n")[0])
    ):
        return f"Agreed: {proposal}."
    combined = f"{offer.about} Agreed: {proposal}."
    return combined if offer.about and len(combined) <= LONGEST and is_specific(proposal) else ""


def _picked_choice(answer: str, offer: Offer) -> str:
    """Read "Let's go with PostgreSQL" or "Redis please" as a choice of what was proposed, or asked about."""
    for form in (_GOES_WITH, _PICKS):
        match = form.match(answer)
        if not match or len(match["what"].split()) > MAX_CHOICE_WORDS or is_question(answer):
            continue
        choice, why = match["what"].strip(), (match["why"] or "").rstrip(".! ")
        if not why and _mentions_all(choice, offer.proposal) and (content := _agreed_proposal(offer)):
            return content
        if content := _chosen_alternative(choice, why, offer):
            return content
    return ""


def _chosen_alternative(choice: str, reason: str, offer: Offer) -> str:
    question = offer.question
    alternatives = question.lower().count(" or ")
    if (
        not alternatives
        or " or " in choice
        or _STEP_QUESTION.search(question)
        or _FACT_QUESTION.match(question)
        or not is_specific(f"It is {question}")
    ):
        return ""
    if not (_mentions_all(choice, question) or (alternatives == 1 and _BY_POSITION.match(choice))):
        return ""
    if len(question.split()) <= FEWEST_WORDS:  # "Redis or cookies?"
        lead = clean_sentence(offer.lead) if offer.lead else offer.about
        question = f"{lead} {question}".strip() if lead and len(lead) < LONGEST // 2 else question
    content = f"{question[0].upper()}{question[1:]} Chosen: {choice}{reason}."
    return content if len(content) <= LONGEST else ""


def _numbered_choice(answer: str, offer: Offer) -> str:
    """Read "let's go with 2" as a choice of a numbered option."""
    match = _NUMBERED_CHOICE.match(answer)
    if not match or len(answer) > 80:
        return ""
    description = dict(offer.options).get(match[1].lower(), "")
    return f"Chosen: {description}"[:LONGEST] if description else ""


def _mentions_all(choice: str, text: str) -> bool:
    """Whether all that is named was mentioned."""
    words = set(lexemes(choice)) - stop_lexemes()
    return bool(words) and words <= set(lexemes(text))

"""What the assistant put to the person last: a recommendation, a question, what there is to choose from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindhold.engine.capture.rules.candidate import LONGEST
from mindhold.engine.capture.rules.speech import blocks, plain, split_sentences, spoken
from mindhold.engine.capture.rules.standing import dangling, hedged, names, stands_alone, tidy
from mindhold.engine.text.expression import Expression
from mindhold.engine.text.redact import redact
from mindhold.ports.transcripts import Step

MOST_OPTIONS = 5
LONGEST_ABOUT = 140
THIN = 4  # words: fewer say nothing without the question that they answer

_RECOMMENDS = Expression(
    r"^(?:(?:so|overall|in short|here|personally),? |(?:for|given) [^,]{2,40}, ){0,2}(?:i(?:'d| would)?(?: strongly| personally)? (?:recommend|suggest|propose|advise|go with|choose|pick|use|lean towards?)"
    r"|my (?:recommendation|suggestion|proposal|advice|vote|pick|choice)(?: here)?(?: is| would be|:)|(?:recommendation|suggestion|proposal|recommended)\s*:)\s+(?P<what>.+)$",
    re.IGNORECASE,
)
_TO_DO = Expression(r"^(?:that )?(?:we|you)(?: should)? |^to (?=\w)|^that (?=\w)", re.IGNORECASE)
_DOING = Expression(
    r"^(?:not )?\w+ing\b|^(?:use|keep|store|put|move|add|drop|remove|split|write|make|let|have|go|switch|replace|cache|run|build|call|name|start|stick|avoid|leave|set|pin|merge|hash|create|define|expose|return|wrap|extract|rename|migrate|adopt|deploy|host|do|not)\b",
    re.IGNORECASE,
)
_LOOSE = Expression(r"\b(?:option|approach|number|choice) (?:[1-9a-d]|one|two|three)\b", re.IGNORECASE)
# Questions that only ask for leave to go on with what was recommended.
_FOR_LEAVE = Expression(
    r"^(?:so,? )?(?:(?:shall|should|may|can) (?:i|we)|(?:do you )?want me to|would you like me to|ok(?:ay)? (?:to|if i)) (?:go ahead|proceed|continue|do (?:it|that|this|so)|start|implement (?:it|that|this)|set (?:it|that|this) up|make (?:it|that|this|the) \w+|apply (?:it|that|this)|build (?:it|that)|go with (?:it|that|this))\b[^?]*\?$"
    r"|^(?:what do you think|does that (?:sound|work|make sense|look)|(?:is|are) (?:that|this|you) (?:ok|fine|good|alright|acceptable)|sounds? (?:good|ok|right)|ok(?:ay)?|agreed?|good|deal|any objections|do you agree|thoughts|what would you (?:like|prefer)|which (?:one )?(?:do|would) you (?:prefer|like))\b[^?]*\?$",
    re.IGNORECASE,
)
_WHICH = Expression(
    r"\b(?:which|prefer|options?|choose|pick|approach|would you like)\b[^?]*\?", re.IGNORECASE
)
_OPTION = Expression(
    r"^\s*(?:[-*]\s*)?(?:\*\*)?(?:option |approach )?([1-9]|[a-dA-D])(?:\*\*)?[.):]\s+(.+)$",
    re.IGNORECASE | re.MULTILINE,
)
_ASKING = Expression(r"^(?:which|what|where|how|should|shall|do|does|is|can|who|when)\b", re.IGNORECASE)


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


def offer_of(step: Step, asked: str) -> Offer | None:
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


def asked_in(step: Step) -> str:
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

"""How probably a candidate is worth keeping: plain features of it, weighed as learned from judged conversations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from mindhold.capture.candidates import Candidate
from mindhold.capture.cues import cues_in
from mindhold.capture.rules.sentences import (
    announces,
    count_names,
    is_dangling,
    is_hedged,
    is_momentary,
    is_question,
    reports_work,
    stands_alone,
    stands_alone_loosely,
)
from mindhold.model.memory import Kind
from mindhold.model.query import Numbers
from mindhold.ports.embedder import MULTILINGUAL
from mindhold.ports.transcripts import Role
from mindhold.text.language import is_english
from mindhold.text.pattern import LazyPattern, any_case

# Kinds that rules and labels give, and that the judge learns to tell apart.
JUDGED_KINDS = (
    Kind.PREFERENCE,
    Kind.DECISION,
    Kind.ERROR,
    Kind.GOTCHA,
    Kind.ARCHITECTURE,
    Kind.PROCEDURE,
    Kind.PROGRESS,
)
_SECTIONS: Mapping[str, LazyPattern] = {
    "problems": LazyPattern(r"problem|issue|bug|finding|review|severity|concern|gap|missing|wrong|feedback"),
    "plan": LazyPattern(
        r"plan|option|approach|propos|recommend|suggest|next|todo|step|would|could|question|phase"
    ),
    "summary": LazyPattern(r"summary|change|done|what (?:i|was)|fix|result|updated"),
    "reasons": LazyPattern(r"decision|design|why|reason|rationale|trade"),
    "structure": LazyPattern(r"how|architecture|overview|structure|flow|key|detail"),
    "caveats": LazyPattern(r"note|caveat|gotcha|important|warning|limit"),
}
# A sentence without any of these cues says nothing about how it is to be done.
_MARKS = ("lasting", "ban", "order", "norm", "only", "complaint", "contrast")
WISH_SHARE = 2 / 3  # of the evidence for keeping what the person says: the rest is what readers keep
_LEAST_CHANCE = 1e-9
# Cues that say more together.
_TOGETHER = (
    ("ban", "practice"),
    ("lasting", "practice"),
    ("order", "practice"),
    ("lasting", "order"),
    ("lasting", "ban"),
    ("contrast", "practice"),
    ("question", "order"),
    ("norm", "practice"),
    ("norm", "momentary"),
    ("task", "practice"),
    ("task", "lasting"),
    ("task", "ban"),
    ("only", "practice"),
    ("only", "task"),
    ("complaint", "practice"),
    ("finding", "lasting"),
)
# What only the conversation has numbered.
NUMBERED = any_case(
    r"\b(?:options?|approach|alternative|step|phase|sprint|lane|task|point|item|finding|case|path|bug|issue|gap|problem|comment|hunk|thread|concern|suggestion|part)s? (?:#?\d+|(?-i:[A-HJ-Z]))\b|^(?:[#(]?\d{1,2}[.):]|\([a-z]\))(?=\s)"
)
_TEXTS: Mapping[str, LazyPattern] = {
    "I": LazyPattern(r"\b(?:I|I'm|my|me)\b"),
    "we": any_case(r"\b(?:we|our)\b"),
    "you": any_case(r"\byou\b"),
    "future": LazyPattern(r"\b(?:will|going to|'ll)\b"),
    "past": LazyPattern(r"\b(?:was|were|had|did|failed|found)\b"),
    "must": LazyPattern(
        r"\b(?:must|only|cannot|can't|never|required|requires|otherwise|intentional\w*|deliberate\w*|by design)\b"
    ),
    "condition": any_case(r"\b(?:if|when|unless|until)\b"),
    "number": LazyPattern(r"\d"),
    "path": LazyPattern(r"[\w-]+/[\w./-]+|\w+\.\w{2,4}\b"),
    "code": LazyPattern(r"`"),
    "label": LazyPattern(r"^[^:]{3,40}: "),
    "arrow": LazyPattern(r"→|->"),
    "article": LazyPattern(r"^(?:The|A|An) "),
    "doing": LazyPattern(r"^\w+ing\b"),
    "command": LazyPattern(
        r"^(?:Add|Use|Run|Make|Keep|Do|Set|Create|Update|Remove|Fix|Check|Change|Move|Put|Show|Let)\b"
    ),
    "change": any_case(
        r"^(?:[^—:]{3,60}(?: [—–-]|:) )?(?:(?:now|also) )?(?:added|removed|replaced|bumped|renamed|moved|updated|changed|wrapped|created|extracted|split|fixed|extended|simplified)\b"
    ),
    "recommends": any_case(
        r"\b(?:i'd (?:go with|suggest|recommend|lean|keep|do)|i (?:recommend|suggest|propose|would)|recommend(?:ed|ation)\b)"
    ),
    "numbered": NUMBERED,
    "lack": any_case(r"\b(?:missing|lacks?|unused|dead code|duplicated?|inconsistent|hard-?coded|todo)\b"),
    "state of work": any_case(
        r"\b(?:uncommitted|unstaged|staged|unpushed|working tree|untracked|stash\w*|commits? (?:ahead|behind)|not yet|ready to (?:commit|merge|review)|left to do)\b"
    ),
    "issue number": LazyPattern(r"#\d+"),
    "line number": LazyPattern(r"\blines? \d|\w:\d+\b|\bL\d+"),
    "choice": LazyPattern(r"\b(?:Chosen|Agreed)\b"),
    "choice of a step": any_case(
        r"\b(?:proceed|continue|go on|execute|unblock|land|wide|resume|right now|(?:do|happen) (?:with (?:this|that|it)|next|now|first)|this (?:pr|commit|branch|time|session|turn)|draft pr"
        r"|update (?:the )?pr|commit (?:it|this|now|these)|merge|push|which (?:branch|files|commits?)|delet\w+|overwrite|confirm|retry|stop here)\b[^?]*\?.*\bChosen:"
        r"|\bChosen: (?:retry|stop|proceed|continue|commit|push|merge|delete|separate pr|later|not now|cancel|yes, (?:update|do|delete|push|commit|create|go)|update|work on it)\b"
        r"|(?:どう進め|削除|コミット|强推|提交|覆盖|진행|삭제|커밋).*\bChosen:"
    ),
}


def features(candidate: Candidate) -> Mapping[str, float]:
    """What is known of a candidate, by name."""
    text, person = candidate.content, candidate.role is Role.USER
    cues = cues_in(text)
    known: dict[str, float] = dict(cues)
    known |= {f"person {name}": value * person for name, value in cues.items()}
    known |= {f"{one} {other}": cues[one] * cues[other] for one, other in _TOGETHER}
    known["unmarked"] = float(not any(cues[name] for name in _MARKS))
    known |= {
        f"lasting {name}": cues[name] * (1.0 - cues["momentary"]) for name in ("ban", "order", "practice")
    }
    words, names = len(text.split()), count_names(text)
    message = float(np.log1p(max(candidate.message, len(text))))
    known |= {
        "person": person,
        "event": candidate.role is Role.TOOL,
        "closing": candidate.closing,
        "words": float(np.log1p(words)),
        "few words": words < 6,
        "message": message,
        "person's message": message * person,
        "of a long message": float(np.log1p(len(text))) - message,
        "short": words <= 14,
        "many words": words > 40,
        "names": float(np.log1p(names)),
        "no name": names == 0,
        "rule": candidate.rule is not None,
        "rule's weight": candidate.weight,
        "stands alone": stands_alone(text),
        "stands alone loosely": stands_alone_loosely(text),
        "dangling": is_dangling(text),
        "hedged": is_hedged(text),
        "announces": announces(text),
        "reports work": reports_work(text),
        "of the moment": is_momentary(text),
        "asks": is_question(text),
        "turns after": float(np.log1p(candidate.turns_after)),
        "last turn": candidate.turns_after == 0,
        "edits after": float(np.log1p(candidate.edits_after)),
        "repeated": candidate.repeated,
        "last message": candidate.last,
        "objected": candidate.objected,
        "objecting": candidate.objecting,
        "opening": candidate.opening,
        "person opening": person and candidate.opening,
        "bullet": candidate.bullet,
        "person bullet": person and candidate.bullet,
        "headed": candidate.section != "",
    }
    known |= {f"rule: {kind}": candidate.kind is kind for kind in JUDGED_KINDS}
    known |= {name: pattern.search(text) is not None for name, pattern in _TEXTS.items()}
    known |= {
        f"under {name}": pattern.search(candidate.section) is not None for name, pattern in _SECTIONS.items()
    }
    return {name: float(value) for name, value in known.items()}


@dataclass(frozen=True, slots=True)
class Meaning:
    """The vector of a text, and the local model that made it."""

    model: str
    vector: Numbers


@dataclass(frozen=True, slots=True)
class Weights:
    """A linear model: the weighted sum of the features and, where `meaning` has weights, of a vector's parts, and its offset."""

    weights: Mapping[str, float]
    offset: float
    meaning: tuple[float, ...] = ()

    def sum_of(self, known: Mapping[str, float], meaning: Numbers | None = None) -> float:
        of_features = sum(weight * known.get(name, 0.0) for name, weight in self.weights.items())
        return self.offset + of_features + (0.0 if meaning is None else float(np.dot(self.meaning, meaning)))


Learned = Mapping[str, Weights]  # "keep", "wish", "wish by MODEL", and one for each kind
_OTHER: ContextVar[Learned | None] = ContextVar("other weights", default=None)


# Words of short sentences that are no stop words, by which a language can't be told of longer ones.
_NOT_ENGLISH = any_case(
    r"\b(?:bitte|jetzt|mache?|mich|dich|mir|frag|zeig|genau|nein|halte|lass|weiter|keinen|starte|nimm"
    r"|cette|oui|fais|jamais|toujours|avant|corrige|ajoute|montre|supprime|moi|relance|l'\w+|fais-\w+"
    r"|otro|nunca|siempre|cada|haz|prefiero|quiero|ahora|vez|hagas|adelante|borra|ejecuta)\b"
)


def understands(model: str, text: str) -> bool:
    """Whether the vectors of this local model tell what a text means, in its language."""
    if MULTILINGUAL in model:
        return True
    english = is_english(text)
    return english is True or (english is None and text.isascii() and not _NOT_ENGLISH.search(text))


def wish_by(model: str) -> str:
    """The name of the weights that also tell wishes by this model's vectors."""
    return f"wish by {model}"


def keep_probability(known: Mapping[str, float]) -> float:
    """The probability that a reader would keep the candidate with these features."""
    return _probability(learned()["keep"], known)


def wish_probability(known: Mapping[str, float], meaning: Meaning | None = None) -> float:
    """The probability that the person's sentence with these features is meant to last, in any of the languages of the cues.

    Its meaning counts as well if weights were learned for the model.
    """
    weights = learned().get(wish_by(meaning.model)) if meaning else None
    if weights is None or meaning is None or len(meaning.vector) != len(weights.meaning):
        return _probability(learned()["wish"], known)
    return _chance(weights.sum_of(known, meaning.vector))


def typed_worth(keep: float, wish: float) -> float:
    """The probability that something the person said is worth keeping: the mean of both kinds of evidence."""
    return _chance(WISH_SHARE * _evidence(wish) + (1 - WISH_SHARE) * _evidence(keep))


def _evidence(chance: float) -> float:
    return float(np.log(max(chance, _LEAST_CHANCE) / max(1 - chance, _LEAST_CHANCE)))


def kind_of(known: Mapping[str, float]) -> Kind:
    """The most probable kind of a candidate with these features."""
    return max(JUDGED_KINDS, key=lambda kind: learned()[kind.value].sum_of(known))


def _probability(weights: Weights, known: Mapping[str, float]) -> float:
    return _chance(weights.sum_of(known))


def _chance(evidence: float) -> float:
    return float(1.0 / (1.0 + np.exp(-evidence)))


def learned() -> Learned:
    """The weights in use: the shipped ones outside of `judging_with`."""
    return _OTHER.get() or _shipped()


@contextmanager
def judging_with(other: Learned) -> Iterator[None]:
    """Judge by other weights in this block: a measurement leaves out what it measures."""
    token = _OTHER.set(other)
    try:
        yield
    finally:
        _OTHER.reset(token)


@cache
def _shipped() -> Learned:
    """What `benchmarks/learn_extraction.py` learned from all judged conversations."""
    content = json.loads(files("mindhold.capture").joinpath("judge.json").read_text("utf-8"))
    return from_json(content)


def from_json(content: Mapping[str, Any]) -> Learned:
    """The weights as `judge.json` has them."""
    return {
        name: Weights(entry["weights"], entry["offset"], tuple(map(float, entry.get("meaning", "").split())))
        for name, entry in content.items()
    }

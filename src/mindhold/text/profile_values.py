"""Keys and values of a profile: what counts as a name, a place or a thing, and how keys are spelled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from mindhold.model.errors import InvalidInput

LONGEST_KEY = 80
ALLERGY = "allergy"
DETAIL_LEVEL, CONCISE, DETAILED = "detail_level", "concise", "high"


class Section(StrEnum):
    """The sections of a profile, in display order."""

    NAME = "name"
    PREFERENCES = "preferences"
    FACTS = "facts"
    CONTACTS = "contacts"
    NOTES = "notes"


@dataclass(frozen=True, slots=True)
class ProfileFact:
    """One entry of a profile. `label` is the speaker's word for it; `sentence` overrides the generated sentence."""

    section: Section
    key: str
    label: str
    value: str
    sentence: str = ""


_SPELLINGS = {
    "favourite": "favorite",
    "colour": "color",
    "flavour": "flavor",
    "neighbour": "neighbor",
    "timezone": "time_zone",
    "theatre": "theater",
    "hobbies": "hobby",
}
_NOT_A_KEY = re.compile(r"[^\w]+")
HANGUL = re.compile(r"[가-힣]")
# Words after "my name is" or "I prefer" that rule out a name or a thing.
_NO_VALUE = frozenset(
    "a about above actually all already also always an and any another anything as at back badly based because before being "
    "below better beyond both broken but by clear coming correct currently deprecated different done down dropped due each "
    "easy either empty everything fine for from full getting given going gone good great half hard having he her here hidden "
    "him his how however i important in incorrect incomplete inside into irrelevant it its just late later like listed long "
    "lost made maybe me mine misspelled misspelt missing more my near next none nothing null obvious of off ok okay old on "
    "once one only or our out outdated over pending pretty private public quite ready really redacted right running same "
    "secret set she shown similar so some something somewhere soon spelled spelt still stored strange stuck sure taken than "
    "that the their them then there these they this those through to today tomorrow tonight too true twice undefined under "
    "unclear unknown until up updated us used valid very via was way we were what when where which while who why with within "
    "wrong yesterday you your yours they invalid failing slow fast weird boring hiring cancelled tba tbd whatever".split()
)
_ARTICLES = frozenset({"a", "an", "the"})
_CLAUSE = re.compile(
    r"\b(?:because|but|although|since|so that|when|while|until|which|who|i|we|you|he|she|it|they|is|are|was|were|will|has|have|"
    r"and (?:i|my|we|the))\b",
    re.IGNORECASE,
)
_NAME_WORD = re.compile(r"[^\W\d_][\w'’.-]*")
_REFERENCE = re.compile(
    r"(?:the |that |this )?(?:first|second|third|last|former|latter|other|next|previous|option \w+)(?: one| option)?",
    re.IGNORECASE,
)


def profile_key(label: str) -> str:
    """The label in snake case, with one spelling for "favourite" and "favorite". Raises InvalidInput for a label without letters."""
    words = _NOT_A_KEY.sub(
        " ", label.replace("'s ", " ").replace("’s ", " ").replace("_", " ").casefold()
    ).split()
    key = "_".join(_SPELLINGS.get(word, word) for word in words)
    if not key or len(key) > LONGEST_KEY:
        raise InvalidInput(
            f"The name of an entry has 1 to {LONGEST_KEY} letters and digits.",
            advice="A word or two do well, such as favorite_color.",
        )
    return key


def other_spellings(label: str) -> tuple[str, ...]:
    """The words of a label in their other spelling (favourite, favorite), so that a search for either finds it."""
    spellings = _SPELLINGS | {american: british for british, american in _SPELLINGS.items()}
    return tuple(spellings[word].replace("_", " ") for word in label.casefold().split() if word in spellings)


def is_definite(value: str) -> bool:
    """Whether the value says what something is: no clause, no complaint, no reference to something else."""
    words = value.split()
    if not words or len(words) > 8 or not any(letter.isalnum() for letter in value):
        return False
    first = words[0].casefold().strip(",.;:")
    rest = words[1].casefold() if len(words) > 1 else ""
    if first in _ARTICLES:
        return (
            bool(rest)
            and rest not in ("same", "following", "best", "worst", "way", "reason", "one", "problem")
            and not _CLAUSE.search(value)
        )
    if first in _NO_VALUE or first.endswith("n't"):
        return False
    return not _CLAUSE.search(value)


def is_a_thing(value: str) -> bool:
    """Whether the value is a few words that name something."""
    return is_definite(value) and len(value.split()) <= 6 and not _REFERENCE.fullmatch(value)


def is_a_place(value: str) -> bool:
    """Whether the value looks like the name of a place, a language or a company."""
    words = value.split()
    capitalised = [word for word in words if word[:1].isupper() or not word[:1].isascii()]
    return is_a_thing(value) and len(words) <= 5 and bool(capitalised) and words[0] in (capitalised[0], "the")


def is_a_name(value: str) -> bool:
    """Whether the value is one to five words of letters; in lower case at most two, and no common words."""
    words = value.split()
    if not 1 <= len(words) <= 5 or not all(_NAME_WORD.fullmatch(word) for word in words):
        return False
    if (
        any(word.casefold() in _NO_VALUE for word in words if not word[:1].isupper())
        or words[0].casefold() in _NO_VALUE
    ):
        return False
    capitalised = all(
        word[:1].isupper() or not word[:1].isascii() or word in ("de", "van", "von", "der", "la", "bin", "al")
        for word in words
    )
    return capitalised or (len(words) <= 2 and value == value.lower())


def profile_sentence(section: Section, label: str, value: str) -> str:
    """The entry as a complete sentence."""
    end = "" if value[-1:] in ".!?。" else "."
    if section is Section.NOTES:
        return value
    if HANGUL.search(label if section is not Section.CONTACTS else value):
        return f"{label}: 사용자의 {value}" if section is Section.CONTACTS else f"사용자의 {label}: {value}"
    match section:
        case Section.CONTACTS:
            return f"{label} is the user's {value}{end}"
        case Section.PREFERENCES:
            return f"The user prefers {label}: {value}{end}"
        case _:
            return f"The user's {label} is {value}{end}"

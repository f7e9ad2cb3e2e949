"""Finds facts that people state about themselves, such as "my favourite colour is blue"."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from mindhold.model.errors import InvalidInput
from mindhold.text.korean_profile_facts import find_korean_fact
from mindhold.text.profile_values import (
    ALLERGY,
    CONCISE,
    DETAIL_LEVEL,
    DETAILED,
    ProfileFact,
    Section,
    is_a_name,
    is_a_place,
    is_a_thing,
    is_definite,
    profile_key,
)

# Signs that a sentence states nothing for certain.
_DENIED = r"\b(?:not|never|no longer|nor|neither|without|hardly|used to)\b|n['’]t\b"
_DOUBTED = (
    r"\b(?:if|maybe|perhaps|probably|might|wish|would|could|should|whether|unless|suppose|guess|wonder)\b"
)
_QUESTION = r"\?|^(?:what|who|whose|when|where|why|how|which|is|are|do|does|did|can|could|am|was|were)\b"
_UNSURE = re.compile(f"{_DENIED}|{_DOUBTED}|{_QUESTION}", re.IGNORECASE)
_PREFIX = re.compile(
    r"^(?:(?:hey|hi|hello|ok|okay|so|well|by the way|btw|fyi|for the record|for your information|just so you know|also|and|"
    r"please|kindly|can you|could you|you should|i want you to)\s*[,:]?\s+)*"
    r"(?:(?:please\s+)?(?:remember|note|keep in mind|don['’]t forget|make a note|be aware|know)(?:\s*[:,]\s*|\s+(?:that\s+)?))?",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+|\s*;\s+|,?\s+and\s+(?=(?:my|i|i['’]m)\s)", re.IGNORECASE)
_END = re.compile(r"[\s.!。！]+$")

# What may follow "my ... is": the pattern describes the value.
_DATE = re.compile(
    r"(?=.*\d)[\w.,/ -]{3,30}|(?:\d{1,2}(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*\.?"
    r"(?:\s+\d.*)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d{1,3}(?:\s+years?(?:\s+old)?)?|\d+(?:[.,]\d+)?\s?(?:cm|m|kg|lbs?|ft|feet|inches|[\"'’]).*",
    re.IGNORECASE,
)
_ROLE = re.compile(r"an?\s+\S.*", re.IGNORECASE)
_ZONE = re.compile(
    r"(?:UTC|GMT)\s*(?:[+-]\s?\d{1,2}(?::\d\d)?)?|[A-Z]{2,5}|[A-Z]\w+/[A-Z]\w+|[A-Z]\w+(?: \w+)* time"
)
_ADDRESS = re.compile(r"\S+@\S+|\[redacted:[\w-]+\]|\+?[\d][\d ()./-]{5,}", re.IGNORECASE)
_PRONOUNS = re.compile(r"\w+(?:\s?/\s?\w+)+", re.IGNORECASE)
_Fits = Callable[[str], bool]
_Reader = Callable[[re.Match[str]], ProfileFact | None]
_Form = tuple[re.Pattern[str], _Reader]


def _full_match(pattern: re.Pattern[str]) -> _Fits:
    return lambda value: pattern.fullmatch(value) is not None and (pattern is _PRONOUNS or is_definite(value))


_FACTS: dict[str, _Fits] = {
    **dict.fromkeys(("birthday", "birth date", "date of birth"), _full_match(_DATE)),
    **dict.fromkeys(("age", "height", "weight", "shoe size"), _full_match(_NUMBER)),
    **dict.fromkeys(("email", "email address", "e-mail", "phone", "phone number"), _full_match(_ADDRESS)),
    **dict.fromkeys(("time zone", "timezone"), _full_match(_ZONE)),
    **dict.fromkeys(("job", "day job"), _full_match(_ROLE)),
    "pronouns": _full_match(_PRONOUNS),
    **dict.fromkeys(
        ("home city", "hometown", "home town", "home country", "birthplace", "place of birth", "nationality"),
        is_a_place,
    ),
    **dict.fromkeys(
        ("native language", "mother tongue", "first language", "preferred language", "language", "employer"),
        is_a_place,
    ),
    **dict.fromkeys(
        (
            "occupation",
            "profession",
            "job title",
            "hobby",
            "blood type",
            "zodiac sign",
            "star sign",
            "nickname",
        ),
        is_a_thing,
    ),
}
_PETS = ("dog", "cat", "pet", "horse", "rabbit", "parrot", "hamster")
_SAME_KEY = {
    "birth_date": "birthday",
    "date_of_birth": "birthday",
    "home_town": "hometown",
    "place_of_birth": "birthplace",
    "email_address": "email",
    "e_mail": "email",
    "phone_number": "phone",
    "day_job": "job",
    "occupation": "job",
    "profession": "job",
    "first_language": "native_language",
    "mother_tongue": "native_language",
}
_RELATIVES = (
    "mother mom mum father dad sister brother wife husband partner spouse girlfriend boyfriend fiance fiancee fiancé fiancée "
    "son daughter aunt uncle cousin niece nephew grandmother grandma grandfather grandpa friend boss manager supervisor "
    "colleague coworker co-worker teammate neighbour neighbor roommate flatmate landlord doctor dentist therapist lawyer "
    "accountant teacher tutor mentor coach assistant"
).split()
_RELATION = (
    r"(?P<relation>(?:(?:best|old|older|elder|little|younger|youngest|oldest|big|twin|step|half|ex|ex-|former|new)[ -]?)?"
    rf"(?:{'|'.join(sorted(map(re.escape, _RELATIVES), key=len, reverse=True))})(?:-in-law)?)"
)
_NAME = r"(?P<name>.+)"


def find_profile_fact(text: str) -> ProfileFact | None:
    """The fact that one sentence states about its speaker; None if it states none for certain."""
    sentence = " ".join(text.split())
    fact = find_korean_fact(sentence)
    if fact is not None:
        return fact
    whole = _END.sub("", _PREFIX.sub("", sentence))
    if not whole or len(whole) > 200 or _UNSURE.search(whole):
        return None
    for pattern, read in _forms():
        if match := pattern.fullmatch(whole):
            try:
                return read(match)
            except InvalidInput:  # too long for a key
                return None
    return None


def split_profile_sentences(text: str) -> list[str]:
    """Split text into sentences, also at "and I ..." and "and my ..."."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def _form(pattern: str, read: _Reader) -> _Form:
    return re.compile(pattern, re.IGNORECASE), read


def _name(match: re.Match[str]) -> ProfileFact | None:
    name = match["value"].strip(" \"'“”")
    return ProfileFact(Section.NAME, "name", "name", name) if is_a_name(name) else None


def _nickname(match: re.Match[str]) -> ProfileFact | None:
    """The name to call the speaker, which starts with a capital: "call me later" has none."""
    name = match["value"].strip(" \"'“”")
    return ProfileFact(Section.NAME, "name", "name", name) if name[:1].isupper() and is_a_name(name) else None


def _favourite(match: re.Match[str]) -> ProfileFact | None:
    label, value = match["label"].lower(), match["value"]
    if not is_definite(value) or len(match["thing"].split()) > 4:
        return None
    return ProfileFact(Section.FACTS, profile_key(label), label, value)


def _own(match: re.Match[str]) -> ProfileFact | None:
    label, value = match["thing"].lower(), match["value"]
    fits = _FACTS.get(label)
    if fits is None or not fits(value):
        return None
    key = profile_key(label)
    return ProfileFact(Section.FACTS, _SAME_KEY.get(key, key), label, value)


def _pet(match: re.Match[str]) -> ProfileFact | None:
    pet, name = match["pet"].lower(), match["value"]
    if not (name[:1].isupper() and is_a_name(name)):
        return None
    return ProfileFact(Section.FACTS, f"{pet}_name", f"{pet}'s name", name)


def _home(match: re.Match[str]) -> ProfileFact | None:
    place = match["value"]
    if not is_a_place(place):
        return None
    return ProfileFact(Section.FACTS, "home_city", "home city", place, f"The user lives in {place}.")


def _born(match: re.Match[str]) -> ProfileFact | None:
    value = match["value"]
    if re.fullmatch(r"(?:18|19|20)\d\d", value):
        return ProfileFact(
            Section.FACTS, "birth_year", "year of birth", value, f"The user was born in {value}."
        )
    if match["how"].lower() == "on":
        fits = is_definite(value) and _DATE.fullmatch(value)
        return (
            ProfileFact(Section.FACTS, "birthday", "birthday", value, f"The user was born on {value}.")
            if fits
            else None
        )
    if not is_a_place(value) or not value[:1].isupper():
        return None
    return ProfileFact(Section.FACTS, "birthplace", "birthplace", value, f"The user was born in {value}.")


def _work(match: re.Match[str]) -> ProfileFact | None:
    value = match["value"]
    if match["how"].lower() == "as":
        role = re.fullmatch(r"(an?|the)\s+(.+)", value, re.IGNORECASE)
        if role is None or not is_a_thing(role[2]):
            return None
        return ProfileFact(Section.FACTS, "job", "job", role[2], f"The user works as {value}.")
    firm = value.removeprefix("the ")
    if not (firm[:1].isupper() and is_a_place(firm)):
        return None
    return ProfileFact(
        Section.FACTS, "employer", "employer", value, f"The user works {match['how'].lower()} {value}."
    )


def _allergic(match: re.Match[str]) -> ProfileFact | None:
    """Each allergy has its own key, so that a second one doesn't replace the first."""
    value = match["value"]
    if not is_a_thing(value):
        return None
    return ProfileFact(
        Section.FACTS,
        f"{ALLERGY}_{profile_key(value)}",
        f"allergy to {value}",
        value,
        f"The user is allergic to {value}.",
    )


def _tone(match: re.Match[str]) -> ProfileFact:
    return ProfileFact(Section.PREFERENCES, "tone", "tone", match["tone"].lower())


def _detail(match: re.Match[str]) -> ProfileFact:
    short = re.fullmatch(_SHORT, match["how"], re.IGNORECASE)
    return ProfileFact(Section.PREFERENCES, DETAIL_LEVEL, "detail level", CONCISE if short else DETAILED)


def _answer_language(match: re.Match[str]) -> ProfileFact | None:
    language = match["value"]
    if language.lower() not in _LANGUAGES:
        return None
    return ProfileFact(Section.PREFERENCES, "language", "language", language.capitalize())


def _preferred(match: re.Match[str]) -> ProfileFact | None:
    value, other = match["value"], match["other"]
    if not is_a_thing(value) or (other and not is_a_thing(other)):
        return None
    if not other:
        return ProfileFact(
            Section.PREFERENCES,
            profile_key(value),
            value,
            value,
            f"The user prefers {value}.",
        )
    # the same key whichever is preferred
    key = "_or_".join(sorted((profile_key(value), profile_key(other))))
    choice = f"{value} over {other}"
    return ProfileFact(Section.PREFERENCES, key, choice, choice, f"The user prefers {choice}.")


def _contact(match: re.Match[str]) -> ProfileFact | None:
    name, relation = match["name"].strip(" \"'“”"), match["relation"].lower()
    if not name[:1].isupper() or not is_a_name(name) or name.lower() in _ADJECTIVES:
        return None
    return ProfileFact(Section.CONTACTS, profile_key(name), name, relation)


_LANGUAGES = frozenset(
    "english korean german french spanish italian portuguese dutch japanese chinese mandarin russian polish turkish arabic "
    "hindi swedish norwegian danish finnish czech greek hebrew ukrainian vietnamese thai indonesian".split()
)
# Capitalised, but not names: "my wife is Korean".
_ADJECTIVES = _LANGUAGES | frozenset(
    "american british australian canadian mexican brazilian indian irish scottish welsh swiss austrian belgian hungarian romanian "
    "european asian african jewish muslim christian catholic buddhist vegan vegetarian".split()
)
_SHORT = r"short|brief|concise|terse|succinct|to the point|crisp"
_LONG = r"long|detailed|thorough|in[- ]depth|verbose"
_HOW = rf"(?P<how>{_SHORT}|{_LONG})"
_ANSWERS = r"(?:your |my )?(?:answers|replies|responses|explanations)"
_WISH = (
    r"(?:i(?: really| always| generally| usually)? (?:prefer|like|want)|i['’]d like|give me|use|keep|make)"
)
_TONE = r"(?P<tone>casual|formal|friendly|professional|informal|neutral)"


@cache
def _forms() -> tuple[_Form, ...]:
    """The sentence forms, compiled at first use to keep the start quick."""
    return (
        _form(r"(?:my (?:full |first )?name is|my name['’]s) (?P<value>.+)", _name),
        _form(r"(?:you (?:can|may) )?call me (?P<value>[^,]+)", _nickname),
        _form(r"my (?P<label>favou?rite (?P<thing>[\w' -]+?)) (?:is|are) (?P<value>.+)", _favourite),
        _form(rf"my (?P<pet>{'|'.join(_PETS)})(?:['’]s name is| is (?:called|named)) (?P<value>.+)", _pet),
        _form(rf"my {_RELATION}(?:['’]s name)? is (?:called |named )?{_NAME}", _contact),
        _form(rf"{_NAME} is my {_RELATION}", _contact),
        _form(r"my (?P<thing>[\w' -]+?) (?:is|are) (?P<value>.+)", _own),
        _form(r"i (?:currently |now )?live in (?P<value>.+)", _home),
        _form(r"i(?:['’]m| am) (?:now )?living in (?P<value>.+)", _home),
        _form(r"i was born (?P<how>on|in) (?P<value>.+)", _born),
        _form(r"i (?:currently |now )?work (?P<how>as|at|for) (?P<value>.+)", _work),
        _form(r"i(?:['’]m| am) allergic to (?P<value>.+)", _allergic),
        _form(rf"{_WISH} (?:a |an )?(?:more )?{_TONE} (?:tone|style)", _tone),
        _form(rf"{_WISH} (?:your |the |a )?(?:tone|style)(?: to be)? {_TONE}", _tone),
        _form(rf"(?:always |please )*be (?:more |very )?{_HOW}(?: (?:in|with) {_ANSWERS})?", _detail),
        _form(rf"{_WISH} {_ANSWERS}(?: to be)? {_HOW}", _detail),
        _form(rf"{_WISH} {_HOW} {_ANSWERS}", _detail),
        _form(
            r"(?:always |please )*(?:answer|reply|respond|speak|talk)(?: to me)? in (?P<value>\w+)",
            _answer_language,
        ),
        _form(
            r"i (?:always |really |generally |usually |strongly |much )?prefer (?P<value>.+?)(?: (?:over|to|rather than|instead of) (?P<other>.+))?",
            _preferred,
        ),
    )

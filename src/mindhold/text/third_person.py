"""Turns what a person said of themselves into a statement that a whole team can read; English and Korean."""

from __future__ import annotations

import re
from collections.abc import Callable

from mindhold.text.language import is_english
from mindhold.text.pattern import any_case

TEAM = "the team"
WISH = "Wish: "
UNWANTED = "Not wanted: "
PREFERRED = "Preferred: "

# Code, quotations and addresses stay as they are.
_VERBATIM = re.compile(r"(`[^`]*`|\"[^\"]*\"|“[^”]*”|\S+://\S+)")
_SPACES = re.compile(r" {2,}")
_KOREAN = re.compile(r"[가-힣]")

_SOFT = r"(?:please |just |really |also |actually |kindly )*"
_NEGATED = r"(?:do not|don['’]t|did not|didn['’]t|never)"
_WANTING = r"(?:want|like|need|wish|prefer|expect)"
# The beginning of a wish, and what replaces it; the rest of the sentence follows.
_BEGINNINGS = tuple(
    (any_case(rf"^{_SOFT}{source}"), replacement)
    for source, replacement in (
        (
            rf"I {_SOFT}{_NEGATED} {_SOFT}{_WANTING} (?:for )?(?:you |us |claude )?to (?:ever )?",
            f"{WISH}don't ",
        ),
        (r"I['’]d rather (?:you (?:did not|didn['’]t)|not) ", f"{WISH}don't "),
        (r"I['’]d rather (?:you )?", PREFERRED),
        (rf"I {_SOFT}{_NEGATED} {_SOFT}(?:want|like|need) (?:any )?", UNWANTED),
        (r"I (?:really )?(?:hate|dislike|can['’]t stand) (?:it when you )?", UNWANTED),
        (rf"I(?: would|['’]d| do)? {_SOFT}(?:want|like|need|wish|expect) (?:for )?(?:you |claude )to ", WISH),
        (rf"I(?: would|['’]d| do)? {_SOFT}(?:want|wish) to (?=have|see|keep|use|avoid|be\b)", WISH),
        (rf"I(?: would|['’]d| do)? {_SOFT}prefer (?:it if you |that you |you to |to )?", PREFERRED),
        (rf"I(?: would|['’]d| do)? {_SOFT}(?:want|need) (?!to )", WISH),
        (rf"I(?: would|['’]d) {_SOFT}like (?:to )?", WISH),
        (rf"I {_SOFT}like ", PREFERRED),
        (
            rf"you(?:['’]re| are)? {_SOFT}(?:not supposed to|must(?: not|n['’]t)|should(?: not|n['’]t)|can(?:not|['’]t)) ",
            f"{WISH}don't ",
        ),
        (rf"you {_SOFT}should never ", f"{WISH}never "),
        (
            rf"you(?:['’]re| are)? {_SOFT}(?:supposed to|should|must|need to|have to|ought to) ",
            WISH,
        ),
        (r"(?:can|could|would|will) you (?:please )?not ", f"{WISH}don't "),
        (r"(?:can|could|would|will) you (?:please )?", WISH),
    )
)
_AFTER_A_PAUSE = any_case(
    r"^((?:next time|from now on|in (?:the )?future|going forward|for now|again)[,:]? )(.+)$"
)
_SPEAKER_VERBS = (
    r"wants?|prefers?|likes?|dislikes?|asked|asks|decided|chose|rejected|agreed|expects?|needs?|wishe[sd]"
    r"|confirmed|requested|requires?|insists?|said|says|told|does(?: not|n['’]t) (?:want|like|need)"
)
_THIRD = (
    (any_case(rf"\bthe (?:user|person|developer|human)(?= (?:{_SPEAKER_VERBS})\b)"), TEAM),
    (any_case(r"\b(ask|tell|show|notify|warn|remind) me (?=before|first|when|if|about|whether)"), r"\1 "),
    (any_case(r"\blet me\b"), f"let {TEAM}"),
)
_PRONOUNS = (
    (any_case(r"\bmyself\b"), "themselves"),
    (any_case(r"\bmine\b"), f"{TEAM}'s"),
    (re.compile(r"\b[Mm]y\b(?!-)"), "the"),
    (re.compile(r"\bme\b"), TEAM),
)
_STATEMENT = re.compile(
    r"(?:(?<=^)|(?<=[.!?] )|(?<=, )|(?<= that )|(?<= because )|(?<= and )|(?<= when )|(?<= if )|(?<= what )"
    r"|(?<= but )|(?<= where )|(?<= so )|(?<= as )|(?<= before )|(?<= after )|(?<= unless )|(?<= until ))"
    r"I(['’](?:m|ve|ll|d))?(?: (\w+(?:['’]t)?))?(?![\w/])"
)
_CONTRACTIONS = {"m": " is", "ve": " has", "ll": " will", "d": " would"}
_IRREGULAR = {
    "am": "is",
    "have": "has",
    "do": "does",
    "go": "goes",
    "don't": "doesn't",
    "don’t": "doesn't",
    "haven't": "hasn't",
}
_UNCHANGED = frozenset(
    """
    can could will would should must may might cannot can't couldn't won't wouldn't shouldn't was wasn't had hadn't did didn't
    said told chose made went got ran saw found thought wrote took gave set put cut let began kept left meant knew came
    always never usually often only just also still already really now then
    """.split()
)

_KOREAN_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?:(?<=^)|(?<=[.!?,] ))(?:나는|저는|난|전|내가|제가|나도|저도) +"), ""),
    (re.compile(r"(?:(?<=^)|(?<= ))(?:내|제|나의|저의) +(?=[가-힣A-Za-z`])"), ""),
    (re.compile(r"(?:(?<=^)|(?<= ))(?:나에게|저에게|나한테|저한테|내게|제게)(?= )"), "팀에"),
    (
        re.compile(
            r"사용자(?=(?:는|가|의|도)? ?[^.]{0,80}(?:원한다|원합니다|원해요|선호|요청|결정|거절|싫어))"
        ),
        "팀",
    ),
    (re.compile(r"팀는"), "팀은"),
    (re.compile(r"팀가"), "팀이"),
)


def in_third_person(text: str) -> str:
    """The text without "I", "my" and "the user wants". Other languages and what is quoted stay unchanged."""
    if _KOREAN.search(text):
        return _outside_quotes(text, _korean)
    return _capitalized(_outside_quotes(_wish(text), _english)) if is_english(text) is not False else text


def _outside_quotes(text: str, change: Callable[[str], str]) -> str:
    parts = _VERBATIM.split(text)
    return "".join(part if place % 2 else change(part) for place, part in enumerate(parts))


def _korean(text: str) -> str:
    for pattern, replacement in _KOREAN_RULES:
        text = pattern.sub(replacement, text)
    return text


def _wish(text: str) -> str:
    """The text with the beginning of a wish replaced: "I don't want you to push" is "Wish: don't push"."""
    pause = _AFTER_A_PAUSE.match(text)
    if pause is not None:
        rest = _wish(pause[2])
        return (
            f"{pause[1]}{rest}"
            if rest == pause[2]
            else f"{rest.rstrip('.')} ({pause[1].strip(' ,:').lower()})"
        )
    for beginning, replacement in _BEGINNINGS:
        match = beginning.match(text)
        if match is not None and match.end() < len(text):
            rest = text[match.end() :]
            return replacement + (rest.rstrip("?").rstrip() if text[:1].lower() in "cw" else rest)
    return text


def _english(text: str) -> str:
    for phrase, replacement in _THIRD:
        text = phrase.sub(replacement, text)
    text = _STATEMENT.sub(_conjugated, text)
    for pattern, replacement in _PRONOUNS:
        text = pattern.sub(replacement, text)
    if text.lower().startswith(TEAM):
        text = text.replace(f" and {TEAM} ", " and ")
    return _SPACES.sub(" ", text)


def _conjugated(match: re.Match[str]) -> str:
    contraction, verb = match[1], match[2]
    if contraction is not None:
        return TEAM + _CONTRACTIONS[contraction[1:]] + (f" {verb}" if verb else "")
    return f"{TEAM} {_third_form(verb)}" if verb else TEAM


def _third_form(verb: str) -> str:
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb in _UNCHANGED or verb.endswith(("ed", "ly")) or not verb.islower():
        return verb
    if verb.endswith(("s", "sh", "ch", "x", "z")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def _capitalized(text: str) -> str:
    """The text with a capital at its start, where it begins with the replaced pronoun."""
    return text[:1].upper() + text[1:] if text.startswith("the ") else text

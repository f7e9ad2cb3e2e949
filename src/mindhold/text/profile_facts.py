"""Finds facts that people state about themselves in English or Korean, such as "my favourite colour is blue"."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from mindhold.model.errors import InvalidInput
from mindhold.text.profile_values import (
    ALLERGY,
    CONCISE,
    DETAIL_LEVEL,
    DETAILED,
    HANGUL,
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
    fact = _find_korean_fact(sentence)
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


# The same in Korean.

_KOREAN_PREFIX = re.compile(
    r"^(?:(?:참고로|그리고|아|참)\s*,?\s+)*(?:(?:꼭\s+)?기억해(?:\s*줘|\s*주세요|\s*둬)?\s*[:,.]\s*)?"
)
_KOREAN_SUFFIX = re.compile(
    r"\s*(?:(?:이?라는|다는)\s*(?:것?을|걸|점을)\s*)?,?\s*(?:꼭\s+)?기억해(?:\s*줘|\s*주세요|\s*둬)?\s*[.!]*$"
)
_KOREAN_UNSURE = re.compile(
    r"[?？]|아니|않|없|못\s|모르|(?:^|\s)안\s|만약|아마|무엇|뭐|누구|어디|언제|일까|을까|었으면|다면|인지\b|였던|이었"
)
_KOREAN_MINE = r"(?:내|제|나의|저의)"
_KOREAN_SELF = r"(?:나는|저는|난|전|내가|제가|나|저)"
_KOREAN_IS = r"(?:이에요|이예요|예요|에요|입니다|이야|야|임|이다|다)?"
_KOREAN_OF = r"(?:은|는|이|가)"
_KOREAN_KEYS = {
    "생일": "birthday",
    "생년월일": "birthday",
    "나이": "age",
    "직업": "job",
    "고향": "hometown",
    "국적": "nationality",
    "모국어": "native_language",
    "취미": "hobby",
    "혈액형": "blood_type",
    "시간대": "time_zone",
    "별명": "nickname",
    "이메일": "email",
    "전화번호": "phone",
}
_KOREAN_FAVOURITES = {
    "색": "color", "색깔": "color", "색상": "color", "음식": "food", "영화": "movie", "노래": "song", "책": "book", "과일": "fruit",
    "계절": "season", "운동": "sport", "스포츠": "sport", "동물": "animal", "음료": "drink", "도시": "city", "가수": "singer",
}  # fmt: skip
_KOREAN_RELATIVES = (
    "어머니|엄마|아버지|아빠|여동생|남동생|동생|누나|언니|오빠|형|아내|남편|딸|아들|할머니|할아버지|이모|고모|삼촌|사촌|조카|친구|여자친구|"
    "남자친구|상사|팀장|동료|선생님|담임|의사|이웃|룸메이트"
)
_KOREAN_STATES = frozenset(
    "비밀 중요 이상 문제 고장 실패 오류 에러 정상 완료 준비 예정 내일 오늘 어제 지금 나중 그거 이거 저거 그것 이것".split()
)
_KOREAN_LIVES = r"(?:살아(?:요)?|살고\s*있(?:어|어요|습니다|다)|삽니다|산다)"
_KOREAN_LONGEST = 40


def _find_korean_fact(text: str) -> ProfileFact | None:
    """The fact that a Korean sentence states; None if it isn't Korean or states nothing for certain."""
    if not HANGUL.search(text):
        return None
    whole = _KOREAN_PREFIX.sub("", _KOREAN_SUFFIX.sub("", text)).strip(" .!。！")
    if not whole or len(whole) > 120 or _KOREAN_UNSURE.search(whole):
        return None
    for pattern, read in _korean_forms():
        if match := pattern.fullmatch(whole):
            fact = read(match)
            return fact if fact is None or _is_plausible_korean(fact.value) else None
    return None


def _is_plausible_korean(value: str) -> bool:
    return (
        0 < len(value) <= _KOREAN_LONGEST
        and value.split()[0] not in _KOREAN_STATES
        and value not in _KOREAN_STATES
    )


def _korean_name(match: re.Match[str]) -> ProfileFact | None:
    name = match["value"].strip("\"'“” ")
    fits = len(name.split()) <= 3 and all(letter.isalpha() or letter in " .'-" for letter in name)
    return ProfileFact(Section.NAME, "name", "이름", name) if fits else None


def _korean_favourite(match: re.Match[str]) -> ProfileFact:
    thing = match["thing"]
    key = profile_key(f"favorite {_KOREAN_FAVOURITES.get(thing, thing)}")
    return ProfileFact(Section.FACTS, key, f"좋아하는 {thing}", match["value"])


def _korean_own(match: re.Match[str]) -> ProfileFact | None:
    key = _KOREAN_KEYS.get(match["thing"])
    value = match["value"]
    if key is None or (key in ("birthday", "age", "phone") and not any(letter.isdigit() for letter in value)):
        return None
    return ProfileFact(Section.FACTS, key, match["thing"], value)


def _korean_fact(key: str, label: str) -> _Reader:
    return lambda match: ProfileFact(Section.FACTS, key, label, match["value"])


def _korean_allergic(match: re.Match[str]) -> ProfileFact:
    value = match["value"]
    return ProfileFact(
        Section.FACTS,
        f"{ALLERGY}_{profile_key(value)}",
        f"{value} 알레르기",
        value,
        f"사용자는 {value} 알레르기가 있습니다.",
    )


def _korean_contact(match: re.Match[str]) -> ProfileFact | None:
    name = match["value"].strip("\"'“” ")
    if len(name.split()) > 2 or not all(letter.isalpha() or letter == " " for letter in name):
        return None
    return ProfileFact(Section.CONTACTS, profile_key(name), name, match["relation"])


def _korean_preferred(match: re.Match[str]) -> ProfileFact:
    value, other = match["value"], match["other"]
    key = "_or_".join(sorted((profile_key(value), profile_key(other))))
    choice = f"{other}보다 {value}"
    return ProfileFact(
        Section.PREFERENCES, key, choice, choice, f"사용자는 {other}보다 {value} 쪽을 선호합니다."
    )


def _korean_detail(match: re.Match[str]) -> ProfileFact:
    short = match["how"] in ("짧게", "간결하게", "간단하게", "간단히")
    return ProfileFact(Section.PREFERENCES, DETAIL_LEVEL, "detail level", CONCISE if short else DETAILED)


def _korean_tone(match: re.Match[str]) -> ProfileFact:
    return ProfileFact(Section.PREFERENCES, "tone", "tone", "casual" if match["how"] == "반말" else "formal")


_KOREAN_ASK = r"(?:\s*(?:줘|주세요|줘요|라|요))?"


@cache
def _korean_forms() -> tuple[_Form, ...]:
    """The sentence forms, compiled at the first Korean text."""
    return tuple(
        (re.compile(pattern), read)
        for pattern, read in (
            (rf"{_KOREAN_MINE}\s*이름{_KOREAN_OF}\s*(?P<value>.+?){_KOREAN_IS}", _korean_name),
            (
                r"(?:나를|저를|날|절)\s*(?P<value>[가-힣A-Za-z ]+?)(?:이?라고)\s*(?:불러|부르면)(?:줘|\s*줘|\s*주세요|\s*돼|\s*됩니다)?",
                _korean_name,
            ),
            (
                rf"(?:{_KOREAN_SELF}\s*)?(?:가장|제일)?\s*좋아하는\s*(?P<thing>[가-힣A-Za-z]{{1,10}}?){_KOREAN_OF}\s+(?P<value>.+?){_KOREAN_IS}",
                _korean_favourite,
            ),
            (
                rf"{_KOREAN_MINE}\s*(?P<relation>{_KOREAN_RELATIVES})(?:\s*이름)?{_KOREAN_OF}\s+(?P<value>.+?){_KOREAN_IS}",
                _korean_contact,
            ),
            (
                rf"(?P<value>[가-힣A-Za-z]{{2,12}}?){_KOREAN_OF}\s+{_KOREAN_MINE}\s*(?P<relation>{_KOREAN_RELATIVES}){_KOREAN_IS}",
                _korean_contact,
            ),
            (
                rf"{_KOREAN_MINE}\s*(?P<thing>[가-힣]{{2,6}}?){_KOREAN_OF}\s+(?P<value>.+?){_KOREAN_IS}",
                _korean_own,
            ),
            (
                rf"{_KOREAN_SELF}\s*(?:지금\s*|현재\s*)?(?P<value>[가-힣A-Za-z ]{{2,20}}?)에서?\s*{_KOREAN_LIVES}",
                _korean_fact("home_city", "사는 곳"),
            ),
            (
                rf"{_KOREAN_SELF}\s*(?P<value>[가-힣A-Za-z ]{{2,20}}?)(?:으)?로\s*일(?:해(?:요)?|하고\s*있(?:어|어요|습니다)|합니다)",
                _korean_fact("job", "직업"),
            ),
            (
                rf"{_KOREAN_SELF}\s*(?P<value>[가-힣A-Za-z ]{{2,20}}?)에서\s*일(?:해(?:요)?|하고\s*있(?:어|어요|습니다)|합니다)",
                _korean_fact("employer", "직장"),
            ),
            (
                rf"{_KOREAN_SELF}\s*(?P<value>[가-힣A-Za-z ]{{1,20}}?)\s*알레르기가?\s*있(?:어|어요|습니다|다)",
                _korean_allergic,
            ),
            (
                rf"{_KOREAN_SELF}\s*(?P<other>.{{1,20}}?)보다\s*(?P<value>.{{1,20}}?)[을를이가]\s*(?:더\s*)?(?:좋아해(?:요)?|좋아합니다|선호해(?:요)?|선호합니다|좋아|좋아요)",
                _korean_preferred,
            ),
            (
                rf"(?:항상\s*|앞으로\s*|답변은\s*|대답은\s*)*(?P<how>짧게|간결하게|간단하게|간단히|자세하게|자세히|길게)\s*(?:대답해|답해|답변해|설명해){_KOREAN_ASK}",
                _korean_detail,
            ),
            (
                rf"(?:항상\s*|앞으로\s*)*(?P<how>반말|존댓말)로\s*(?:해|말해|대답해|답해){_KOREAN_ASK}",
                _korean_tone,
            ),
        )
    )

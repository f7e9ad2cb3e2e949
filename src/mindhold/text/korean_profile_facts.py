"""Finds facts that people state about themselves in Korean."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from mindhold.text.profile_values import (
    ALLERGY,
    CONCISE,
    DETAIL_LEVEL,
    DETAILED,
    HANGUL,
    ProfileFact,
    Section,
    profile_key,
)

_PREFIX = re.compile(
    r"^(?:(?:참고로|그리고|아|참)\s*,?\s+)*(?:(?:꼭\s+)?기억해(?:\s*줘|\s*주세요|\s*둬)?\s*[:,.]\s*)?"
)
_SUFFIX = re.compile(
    r"\s*(?:(?:이?라는|다는)\s*(?:것?을|걸|점을)\s*)?,?\s*(?:꼭\s+)?기억해(?:\s*줘|\s*주세요|\s*둬)?\s*[.!]*$"
)
_UNSURE = re.compile(
    r"[?？]|아니|않|없|못\s|모르|(?:^|\s)안\s|만약|아마|무엇|뭐|누구|어디|언제|일까|을까|었으면|다면|인지\b|였던|이었"
)
_MINE = r"(?:내|제|나의|저의)"
_SELF = r"(?:나는|저는|난|전|내가|제가|나|저)"
_IS = r"(?:이에요|이예요|예요|에요|입니다|이야|야|임|이다|다)?"
_OF = r"(?:은|는|이|가)"
_KEYS = {
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
_FAVOURITES = {
    "색": "color", "색깔": "color", "색상": "color", "음식": "food", "영화": "movie", "노래": "song", "책": "book", "과일": "fruit",
    "계절": "season", "운동": "sport", "스포츠": "sport", "동물": "animal", "음료": "drink", "도시": "city", "가수": "singer",
}  # fmt: skip
_RELATIVES = (
    "어머니|엄마|아버지|아빠|여동생|남동생|동생|누나|언니|오빠|형|아내|남편|딸|아들|할머니|할아버지|이모|고모|삼촌|사촌|조카|친구|여자친구|"
    "남자친구|상사|팀장|동료|선생님|담임|의사|이웃|룸메이트"
)
_STATES = frozenset(
    "비밀 중요 이상 문제 고장 실패 오류 에러 정상 완료 준비 예정 내일 오늘 어제 지금 나중 그거 이거 저거 그것 이것".split()
)
_LIVES = r"(?:살아(?:요)?|살고\s*있(?:어|어요|습니다|다)|삽니다|산다)"
_LONGEST = 40
_FactReader = Callable[[re.Match[str]], ProfileFact | None]


def find_korean_fact(text: str) -> ProfileFact | None:
    """The fact that a Korean sentence states; None if it isn't Korean or states nothing for certain."""
    if not HANGUL.search(text):
        return None
    whole = _PREFIX.sub("", _SUFFIX.sub("", text)).strip(" .!。！")
    if not whole or len(whole) > 120 or _UNSURE.search(whole):
        return None
    for pattern, read in _forms():
        if match := pattern.fullmatch(whole):
            fact = read(match)
            return fact if fact is None or _is_plausible(fact.value) else None
    return None


def _is_plausible(value: str) -> bool:
    return 0 < len(value) <= _LONGEST and value.split()[0] not in _STATES and value not in _STATES


def _name(match: re.Match[str]) -> ProfileFact | None:
    name = match["value"].strip("\"'“” ")
    fits = len(name.split()) <= 3 and all(letter.isalpha() or letter in " .'-" for letter in name)
    return ProfileFact(Section.NAME, "name", "이름", name) if fits else None


def _favourite(match: re.Match[str]) -> ProfileFact:
    thing = match["thing"]
    key = profile_key(f"favorite {_FAVOURITES.get(thing, thing)}")
    return ProfileFact(Section.FACTS, key, f"좋아하는 {thing}", match["value"])


def _own(match: re.Match[str]) -> ProfileFact | None:
    key = _KEYS.get(match["thing"])
    value = match["value"]
    if key is None or (key in ("birthday", "age", "phone") and not any(letter.isdigit() for letter in value)):
        return None
    return ProfileFact(Section.FACTS, key, match["thing"], value)


def _fact(key: str, label: str) -> _FactReader:
    return lambda match: ProfileFact(Section.FACTS, key, label, match["value"])


def _allergic(match: re.Match[str]) -> ProfileFact:
    value = match["value"]
    return ProfileFact(
        Section.FACTS,
        f"{ALLERGY}_{profile_key(value)}",
        f"{value} 알레르기",
        value,
        f"사용자는 {value} 알레르기가 있습니다.",
    )


def _contact(match: re.Match[str]) -> ProfileFact | None:
    name = match["value"].strip("\"'“” ")
    if len(name.split()) > 2 or not all(letter.isalpha() or letter == " " for letter in name):
        return None
    return ProfileFact(Section.CONTACTS, profile_key(name), name, match["relation"])


def _preferred(match: re.Match[str]) -> ProfileFact:
    value, other = match["value"], match["other"]
    key = "_or_".join(sorted((profile_key(value), profile_key(other))))
    choice = f"{other}보다 {value}"
    return ProfileFact(
        Section.PREFERENCES, key, choice, choice, f"사용자는 {other}보다 {value} 쪽을 선호합니다."
    )


def _detail(match: re.Match[str]) -> ProfileFact:
    short = match["how"] in ("짧게", "간결하게", "간단하게", "간단히")
    return ProfileFact(Section.PREFERENCES, DETAIL_LEVEL, "detail level", CONCISE if short else DETAILED)


def _tone(match: re.Match[str]) -> ProfileFact:
    return ProfileFact(Section.PREFERENCES, "tone", "tone", "casual" if match["how"] == "반말" else "formal")


_ASK = r"(?:\s*(?:줘|주세요|줘요|라|요))?"


@cache
def _forms() -> tuple[tuple[re.Pattern[str], _FactReader], ...]:
    """The sentence forms, compiled at the first Korean text."""
    return tuple(
        (re.compile(pattern), read)
        for pattern, read in (
            (rf"{_MINE}\s*이름{_OF}\s*(?P<value>.+?){_IS}", _name),
            (
                r"(?:나를|저를|날|절)\s*(?P<value>[가-힣A-Za-z ]+?)(?:이?라고)\s*(?:불러|부르면)(?:줘|\s*줘|\s*주세요|\s*돼|\s*됩니다)?",
                _name,
            ),
            (
                rf"(?:{_SELF}\s*)?(?:가장|제일)?\s*좋아하는\s*(?P<thing>[가-힣A-Za-z]{{1,10}}?){_OF}\s+(?P<value>.+?){_IS}",
                _favourite,
            ),
            (rf"{_MINE}\s*(?P<relation>{_RELATIVES})(?:\s*이름)?{_OF}\s+(?P<value>.+?){_IS}", _contact),
            (
                rf"(?P<value>[가-힣A-Za-z]{{2,12}}?){_OF}\s+{_MINE}\s*(?P<relation>{_RELATIVES}){_IS}",
                _contact,
            ),
            (rf"{_MINE}\s*(?P<thing>[가-힣]{{2,6}}?){_OF}\s+(?P<value>.+?){_IS}", _own),
            (
                rf"{_SELF}\s*(?:지금\s*|현재\s*)?(?P<value>[가-힣A-Za-z ]{{2,20}}?)에서?\s*{_LIVES}",
                _fact("home_city", "사는 곳"),
            ),
            (
                rf"{_SELF}\s*(?P<value>[가-힣A-Za-z ]{{2,20}}?)(?:으)?로\s*일(?:해(?:요)?|하고\s*있(?:어|어요|습니다)|합니다)",
                _fact("job", "직업"),
            ),
            (
                rf"{_SELF}\s*(?P<value>[가-힣A-Za-z ]{{2,20}}?)에서\s*일(?:해(?:요)?|하고\s*있(?:어|어요|습니다)|합니다)",
                _fact("employer", "직장"),
            ),
            (
                rf"{_SELF}\s*(?P<value>[가-힣A-Za-z ]{{1,20}}?)\s*알레르기가?\s*있(?:어|어요|습니다|다)",
                _allergic,
            ),
            (
                rf"{_SELF}\s*(?P<other>.{{1,20}}?)보다\s*(?P<value>.{{1,20}}?)[을를이가]\s*(?:더\s*)?(?:좋아해(?:요)?|좋아합니다|선호해(?:요)?|선호합니다|좋아|좋아요)",
                _preferred,
            ),
            (
                rf"(?:항상\s*|앞으로\s*|답변은\s*|대답은\s*)*(?P<how>짧게|간결하게|간단하게|간단히|자세하게|자세히|길게)\s*(?:대답해|답해|답변해|설명해){_ASK}",
                _detail,
            ),
            (rf"(?:항상\s*|앞으로\s*)*(?P<how>반말|존댓말)로\s*(?:해|말해|대답해|답해){_ASK}", _tone),
        )
    )

"""Whether two Korean sentences deny each other: the same questions as of English ones, with the subject found by its particle."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from mindhold.engine.text.amounts import may_be_one_day
from mindhold.engine.text.expression import Expression
from mindhold.engine.text.opposites import opposite_korean
from mindhold.engine.text.opposition import (
    SAME_WORDS,
    UNKNOWN,
    Bearing,
    Finding,
    of_units,
    saying_more,
)
from mindhold.engine.text.statement import Change, Statement, changes_between, is_one_frame
from mindhold.engine.text.statement_korean import statement_korean

LONGEST = 30
_ATTRIBUTES = frozenset(
    """포트 버전 제한 한도 타임아웃 시간제한 이름 주소 담당자 책임자 관리자 소유자 편집기 에디터 테마 기본값 마감일 마감 예산 브랜치 리전 호스트 도메인
    비밀번호 일정 제목 크기 임계값 라이선스 시간대 이메일 전화번호 상태 가격 간격 주기 용량 할당량 모델 생일 나이 배포일 출시일 언어 수도 대표 팀장 최대값 최댓값 최소값 개수""".split()
)
_PAPERS = frozenset("송장 주문 영수증 청구서 거래".split())
_SUMS = frozenset("금액 총액 합계 가격 비용".split())
_IN_USE = Expression(r"사용|쓴|쓰|이용|배포|저장|운영|관리|설정|실행|호스팅|돌아|작성|도입|채택")
_INSTEAD = Expression(r"(\S+?)(?:을|를|은|는)? 대신(?:에)?\s")
_FROM_TO = Expression(
    r"(\S+?)에서 (\S+?)(?:로|으로) (?:변경|전환|이전|바꾸|바꿨|바뀌|바뀐|옮|교체|마이그레이션|이관|갈아)"
)
_WHICH = frozenset("번 호 장 층 회 권 단계 차 번째 화 과 반 조".split())
_MODIFYING = ("\u11ab", "\u11af", "\u11b7")  # -ㄴ -ㄹ -ㅁ
_PARTICLES = Expression(r"(?:은|는|이|가|을|를)$")


def bearing_korean(old: str, new: str) -> Finding:
    """Of two sentences, the later one second."""
    before, after = statement_korean(old), statement_korean(new)
    if not before.words or not after.words or max(len(before.words), len(after.words)) > LONGEST:
        return UNKNOWN
    if _says_it_changed(old, new, before, after):
        return Finding(Bearing.OPPOSED, 0.85, "the later one says that it has changed")
    if before.past != after.past and not after.ended and not before.ended:
        return Finding(Bearing.APART, 0.85, "one is about the past")
    if before.future != after.future:
        return UNKNOWN
    changes = changes_between(before, after)
    found = (
        _of_negation(before, after, changes)
        if before.negations != after.negations
        else _of_values(before, after, changes)
    )
    if found.bearing is Bearing.APART and not is_one_frame(before, after, changes):
        return UNKNOWN
    return found


def _says_it_changed(old: str, new: str, before: Statement, after: Statement) -> bool:
    """ "npm 대신 pnpm을 사용한다", "npm에서 pnpm으로 전환했다", where the old one says that npm is in use."""
    match = _INSTEAD.search(new) or _FROM_TO.search(new)
    if match is None or not _IN_USE.search(old):
        return False
    gone = set(statement_korean(_PARTICLES.sub("", match[1])).keys)
    subject = (
        {word.key for word in before.words if not word.told}
        if any(word.told for word in before.words)
        else set()
    )
    return bool(gone) and gone <= set(before.keys) and (subject - gone) <= set(after.keys)


def _of_negation(old: Statement, new: Statement, changes: Sequence[Change]) -> Finding:
    if abs(old.negations - new.negations) != 1 or min(old.negations, new.negations) > 0:
        return UNKNOWN
    if not changes:
        if old.hedged or new.hedged or len(old.words) < 2:
            return Finding(Bearing.DOUBTFUL, 0.6, "one denies what the other says of some")
        if old.event != new.event and not new.ended:
            return Finding(Bearing.DOUBTFUL, 0.6, "one denies what the other says of another time")
        return Finding(Bearing.OPPOSED, 0.9, "one denies what the other says")
    if any(change.both and not change.told for change in changes):
        return Finding(Bearing.APART, 0.8, "they are about different things")
    return UNKNOWN


def _of_values(old: Statement, new: Statement, changes: Sequence[Change]) -> Finding:
    if not changes:
        return SAME_WORDS
    has_subject = any(word.told for word in old.words)
    if len(changes) == 1 and changes[0].both and _are_opposite(changes[0]):
        if old.hedged or new.hedged or old.event != new.event or not (has_subject or changes[0].before):
            return Finding(Bearing.DOUBTFUL, 0.5, _values(changes[0]))
        return Finding(Bearing.OPPOSED, 0.85, _values(changes[0]))
    if not any(change.both for change in changes):
        return saying_more(changes)
    if has_subject and any(change.both and not change.told for change in changes):
        return Finding(Bearing.APART, 0.85, "they are about different things")
    if len(changes) > 1 or not changes[0].both or not has_subject or old.hedged or new.hedged:
        return UNKNOWN
    return _of_value(old, new, changes[0])


def _of_value(old: Statement, new: Statement, change: Change) -> Finding:
    if old.event or new.event:
        return UNKNOWN
    dated = change.kinds == {"date"}
    if dated and may_be_one_day(*change.keys):
        return UNKNOWN
    units = of_units(change)
    if units is not None:
        return units
    if change.kinds == {"number"} and len(change.taken) <= 2 and len(change.put) <= 2:
        unit = change.after[0].key if change.after else ""
        if unit in _WHICH or any(word.key in _WHICH for word in change.words):
            return UNKNOWN
        if _is_of_papers(change):
            return UNKNOWN
        if old.limited or new.limited or _runs_somewhere(change):
            return Finding(Bearing.DOUBTFUL, 0.5, _values(change))
        return Finding(Bearing.OPPOSED, 0.85, _values(change))
    subject = [word.key for word in change.before if not word.told]
    named = bool(subject) and subject[-1] in _ATTRIBUTES and all(not word.told for word in change.before)
    if named and len(change.taken) == len(change.put) == 1:
        return Finding(Bearing.OPPOSED, 0.85, _values(change))
    if dated or change.kinds == {"name"}:
        return Finding(Bearing.DOUBTFUL, 0.5, _values(change))
    return UNKNOWN


def _runs_somewhere(change: Change) -> bool:
    """ "테스트는 Python 3.11에서 실행한다": and perhaps on others."""
    return change.taken[-1].raw.endswith("에서") and change.put[-1].raw.endswith("에서")


def _is_of_papers(change: Change) -> bool:
    """ "송장 금액은 300달러이다"."""
    subject = {word.key for word in change.before if not word.told}
    return bool(subject & _PAPERS) and subject <= _PAPERS | _SUMS


def _are_opposite(change: Change) -> bool:
    if len(change.taken) != 1 or len(change.put) != 1 or not change.before:
        return False
    return any(
        opposite_korean(one, two) for one in _roots(change.taken[0].key) for two in _roots(change.put[0].key)
    )


def _roots(key: str) -> tuple[str, ...]:
    """The key, and what it may be the form of: "가능하" of "가능", "빠른" of "빠르"."""
    apart = unicodedata.normalize("NFD", key)
    bare = unicodedata.normalize("NFC", apart[:-1]) if apart.endswith(_MODIFYING) else key
    return key, (key[:-1] if len(key) > 2 and key[-1] in "하되" else bare)


def _values(change: Change) -> str:
    one, two = (" ".join(word.raw for word in words) for words in (change.taken, change.put))
    return f"{one} against {two}"

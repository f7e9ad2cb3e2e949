"""Parses Korean sentences and decides by rules whether two of them contradict each other."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from mindhold.text.contradiction import (
    SAME_WORDS,
    UNKNOWN,
    Comparison,
    apart,
    compare_parsed,
    compare_units,
    doubtful,
    judge_addition,
    opposed,
)
from mindhold.text.pattern import LazyPattern
from mindhold.text.statement import (
    ParsedStatement,
    StatementChange,
    Word,
    may_be_same_day,
)
from mindhold.text.vocabulary import DATE_WORDS, opposite_korean

NEGATED = "\uf8ff"  # marks the place of a negation
_REWRITTEN = (
    # "사용하지 않는다", "먹지 못했다": the verb, then the mark.
    (
        LazyPattern(r"지(?:는|도|를|가)?\s*(?:않|못하|못했|못할|못한|못해|못 ?하)\S*"),
        "다 " + NEGATED,
    ),
    (LazyPattern(r"필요(?:가|는|성이)?\s*없\S*"), f"필요하다 {NEGATED}"),
    (LazyPattern(r"(?<!\S)(?:안|못)\s+(?=\S)"), f"{NEGATED} "),
    (LazyPattern(r"(?<!\S)없(었|을|는|이|던)?\S*"), rf"있\1다 {NEGATED}"),
    (LazyPattern(r"(?<=\S)없(었|을|는|이)(\S*)"), rf" 있\1다 {NEGATED}"),
    (LazyPattern(r"(?<=\S\S)(?:되어|돼)\s+있\S*"), "되다"),  # "공개되어 있다"
    (LazyPattern(r"(?<!\d)(?:(\d{4}년)\s*)?(\d{1,2}월)\s+(\d{1,2}일)(?!간|\s*동안)"), r"\1\2\3"),  # one date
    (LazyPattern(r"(?:이|가)?\s*(?:아니다|아닙니다|아니었다|아니에요|아니였다|아님)"), f" {NEGATED}"),
)
_DATE = r"(?:\d{4}년)?\d{1,2}월(?:\d{1,2}일)?"
_PIECE = LazyPattern(
    _DATE + r"|[0-9][0-9.,:/-]*|[A-Za-z][A-Za-z0-9_.+#/-]*|[가-힣]+|" + NEGATED + r"|[%$€£¥₩]"
)
_PARTICLE = LazyPattern(
    r"(?<=..)(?:에서는|에게는|으로는|께서는|에서도|까지는|부터는|이라는|라는|에서|에게|으로|께서|까지|부터|보다|처럼|에는|에도|로는|와는|과는|이나|마다|이며"
    r"|은|는|이|가|을|를|의|에|로|와|과|도|만|랑|나)$|(?<=^.)(?:을|를|은|는|이|가|에)$"
)
_UNINFLECTED = frozenset(
    "같이 많이 높이 깊이 길이 차이 사이 나이 아이 종이 놀이 회의 주의 동의 문의 국가 평가 증가 휴가 추가 개인 확인 사과 결과 효과 제도 정도 온도 속도 지도 하나 누나 언제나".split()
)
_SUBJECT = LazyPattern(r"(?:은|는|이|가|께서|께서는|에서는|에는)$")
_DO_VERB = LazyPattern(
    r"^(.{1,}?)(?:하|한|할|함|합|했|해|하여|하였)(?:다|고|며|는|던|여|지|면|기|게|려|자|요|니다|습니다|ㄴ다)?\S{0,4}$"
)
# The verb "do" alone, as in "재시도를 했다".
_DO_ALONE = LazyPattern(r"^(?:한다|합니다|했다|했습니다|했음|해요|했어요|하였다|하다)$")
_BECOME_VERB = LazyPattern(r"^(.{2,}?)(?:되|된|될|됨|됩|됐|돼|되어|되었)\S{0,4}$")
_BE_VERB = LazyPattern(r"^(.{1,}?)(?:이다|입니다|이었다|였다|이에요|예요|이며|인|임|이라고)$")
# The endings of other verbs, decomposed: "먹는다" and "먹었습니다" become "먹".
_ENDINGS = tuple(
    unicodedata.normalize("NFD", ending)
    for ending in (
        "었습니다 았습니다 였습니다 겠습니다 습니다 었어요 았어요 었다고 았다고 는다고 었다 았다 였다 겠다 는다 었음 았음 네요 더라 어요 아요 여요 지요 지만 "
        "아서 어서 는데 으며 으면 면서 려고 도록 었던 았던 죠 음 은 는 을 고 며 면 어 아 여 게 다 요 \u11b8니다"
    ).split()
)
# -ㄴ -ㄹ -ㅁ -ㅂ -ㅆ, as in "간다", "갈", "감", "갑니다", "갔다"
_FINALS = ("\u11ab", "\u11af", "\u11b7", "\u11b8", "\u11bb")
_PAST = LazyPattern(
    r"(?:었|았|였|했|됐|졌|렸|갔|왔|봤|났|섰|샀|탔|켰|꼈|텼|쳤|셨|냈|뒀|줬|꿨|웠|겼|녔|혔|썼|컸|떴)(?:다|습니다|어요|음|던|는데|고|으며|지만|을|었)"
)
_PAST_TIME = LazyPattern(r"이전에|예전|과거|원래|처음에|했었|까지는|까지만|당시|옛날|작년|지난")
_FUTURE = LazyPattern(
    r"(?:할|될|을|갈|올) (?:것|예정|계획)|겠다|겠습니다|앞으로|내일|다음 ?(?:주|달|해)|예정"
)
_HEDGED = LazyPattern(
    r"일부|몇|대부분|많은|때때로|가끔|종종|수도 있|것 같|듯|아마|또는|혹은|거나|만약|만일|경우|때만|조차|뿐만|아니라|밖에|거의|별로|그다지|다른|일 수|모든|모두|반드시|항상"
)
_LIMITED = LazyPattern(
    r"이상|이하|미만|초과|약 |정도|최대|최소|까지|넘|대략|가량|쯤|여 ?(?:명|개)|이내|적어도"
)
_ENDED = LazyPattern(r"더 ?이상")
_NUMERALS = {
    word: str(value)
    for value, words in enumerate("- 한,하나 두,둘 세,셋 네,넷 다섯 여섯 일곱 여덟 아홉 열".split())
    for word in words.split(",")
}
_COUNTERS = frozenset(
    "개 명 초 분 시 시간 원 년 월 일 주 번 회 대 권 장 층 살 세 마리 가지 곳 호 퍼센트 만 억 천 백".split()
)
_DROPPED = frozenset(
    "이제 현재 지금 이제는 현재는 지금은 더 더이상 이상 그리고 그러나 근데 그런데 하지만 그래서 다만 또한 역시 결국 마침내 전혀 결코 절대 절대로 매우 아주 정말 너무 정말로 것 수 좀 꼭 참 잘 조금 다소 꽤 상당히 굉장히 무척 특히 한편 사실 실제로 아예 가장 제일 약간 완전 완전히 근데요 단 즉 또".split()
)
_SYNONYMS = {
    "쓰": "사용하",
    "쓴": "사용하",
    "쓸": "사용하",
    "쓰인": "사용되",
    "쓰이": "사용되",
    "이용하": "사용하",
}


@lru_cache(512)
def parse_korean_statement(sentence: str) -> ParsedStatement:
    """Parse a Korean sentence."""
    text = " ".join(sentence.split())
    rewritten = text
    for pattern, replacement in _REWRITTEN:
        rewritten = pattern.sub(replacement, rewritten)
    words: list[Word] = []
    negations = 0
    in_predicate = False
    for chunk in rewritten.split():
        raw = chunk.strip(".,!?\"'“”‘’()[]{}~…·、。")
        if not raw:
            continue
        if raw == NEGATED:
            negations += 1
            continue
        topical = not in_predicate and _SUBJECT.search(raw) is not None and len(raw) > 1
        for key, kind in _keys(raw):
            if key == NEGATED:
                negations += 1
            elif key and key not in _DROPPED:
                words.append(Word(_SYNONYMS.get(key, key), raw, kind, in_predicate))
        in_predicate = in_predicate or topical
    return ParsedStatement(
        words=tuple(words),
        verbs=frozenset(word.key for word in words[-1:]),
        negations=negations,
        hedged=bool(_HEDGED.search(text)),
        limited=bool(_LIMITED.search(text)),
        past=bool(_PAST_TIME.search(text)),
        future=bool(_FUTURE.search(text)),
        ended=bool(_ENDED.search(text)),
        event=bool(_PAST.search(text)),
        linked=bool(_BE_VERB.match(rewritten.split()[-1].strip(".!?"))) if rewritten.split() else False,
    )


def _keys(raw: str) -> list[tuple[str, str]]:
    """Keys and kinds of one chunk: the noun without its particle, or the verb's stem; a number and its unit separately."""
    pieces = _PIECE.findall(raw)
    if len(pieces) == 1 and "가" <= pieces[0][0] <= "힣":
        if pieces[0] in _NUMERALS:
            return [(_NUMERALS[pieces[0]], "number")]
        stem = _stem(pieces[0])
        return [(stem, "date" if stem in DATE_WORDS else "words")]
    keys: list[tuple[str, str]] = []
    for index, piece in enumerate(pieces):
        if piece == NEGATED:
            keys.append((piece, "words"))
        elif piece[0].isdigit() and "월" in piece:
            keys.append((piece, "date"))
        elif piece[0].isdigit():
            keys.append((piece.rstrip(".,:/-").replace(",", ""), "number"))
        elif piece[0].isascii():
            keys.append((piece.rstrip("./-").lower(), "name"))
        elif index and not pieces[index - 1][0].isascii():
            keys.append((_stem(piece), "words"))
        else:  # attached to a number or a name: a unit, or a particle, which is dropped
            unit = next(
                (
                    counter
                    for counter in sorted(_COUNTERS, key=len, reverse=True)
                    if piece.startswith(counter)
                ),
                "",
            )
            if unit and keys and keys[-1][1] == "number":
                keys.append((unit, "number"))
            elif len(piece) > 2 and not _PARTICLES_ONLY.fullmatch(piece):
                keys.append((_stem(piece), "words"))
    return keys


_SOFTENED = LazyPattern(r"^(.+[^\W\d_ㄱ-ㅎ])(?:워요|워서|웠다|웠습니다|웠어요|운|워|우며|우면|웠음|울)$")
_PARTICLES_ONLY = LazyPattern(
    r"(?:은|는|이|가|을|를|의|에|에서|로|으로|와|과|도|만|까지|부터|이다|입니다|이었다|였다|이고|이며|에는|에서는|으로는|이라|라고|다)+"
)


@lru_cache(4096)
def _stem(word: str) -> str:
    for pattern, ending in ((_DO_VERB, "하"), (_BECOME_VERB, "되")):
        match = pattern.match(word)
        if match and len(match[1]) >= 1:
            return match[1] + ending
    if _DO_ALONE.match(word):
        return "하"
    if word.startswith("있"):
        return "있"
    match = _BE_VERB.match(word)
    if match and len(match[1]) > 1:
        return str(match[1])
    if word in _UNINFLECTED:
        return word
    without = _PARTICLE.sub("", word)
    if without != word:
        return without
    softened = _SOFTENED.match(word)
    if softened:  # "어두워요" and "어두운" become "어둡"
        return unicodedata.normalize("NFC", unicodedata.normalize("NFD", softened[1]) + "\u11b8")
    decomposed = unicodedata.normalize("NFD", word)
    for ending in _ENDINGS:
        if decomposed.endswith(ending) and len(decomposed) > len(ending) + 1:
            decomposed = decomposed[: -len(ending)]
            if decomposed.endswith(_FINALS) and ending in _AFTER_FINAL:
                decomposed = decomposed[:-1]
            return unicodedata.normalize("NFC", decomposed)
    return word


_AFTER_FINAL = frozenset(unicodedata.normalize("NFD", ending) for ending in "다 습니다 요 음 던 어요".split())

LONGEST = 30
_ATTRIBUTES = frozenset(
    """포트 버전 제한 한도 타임아웃 시간제한 이름 주소 담당자 책임자 관리자 소유자 편집기 에디터 테마 기본값 마감일 마감 예산 브랜치 리전 호스트 도메인
    비밀번호 일정 제목 크기 임계값 라이선스 시간대 이메일 전화번호 상태 가격 간격 주기 용량 할당량 모델 생일 나이 배포일 출시일 언어 수도 대표 팀장 최대값 최댓값 최소값 개수""".split()
)
_DOCUMENTS = frozenset("송장 주문 영수증 청구서 거래".split())
_SUMS = frozenset("금액 총액 합계 가격 비용".split())
_IN_USE = LazyPattern(r"사용|쓴|쓰|이용|배포|저장|운영|관리|설정|실행|호스팅|돌아|작성|도입|채택")
_INSTEAD = LazyPattern(r"(\S+?)(?:을|를|은|는)? 대신(?:에)?\s")
_FROM_TO = LazyPattern(
    r"(\S+?)에서 (\S+?)(?:로|으로) (?:변경|전환|이전|바꾸|바꿨|바뀌|바뀐|옮|교체|마이그레이션|이관|갈아)"
)
_WHICH = frozenset("번 호 장 층 회 권 단계 차 번째 화 과 반 조".split())
_MODIFYING = ("\u11ab", "\u11af", "\u11b7")  # -ㄴ -ㄹ -ㅁ
_PARTICLES = LazyPattern(r"(?:은|는|이|가|을|를)$")


def compare_korean_sentences(old: str, new: str) -> Comparison:
    """Compare two Korean sentences, of which `new` is the later one."""
    before, after = parse_korean_statement(old), parse_korean_statement(new)
    if not before.words or not after.words or max(len(before.words), len(after.words)) > LONGEST:
        return UNKNOWN
    if _says_it_changed(old, new, before, after):
        return opposed(0.85, "the later one says that it has changed")
    return compare_parsed(before, after, values=_compare_values, negations=_compare_negations)


def _says_it_changed(old: str, new: str, before: ParsedStatement, after: ParsedStatement) -> bool:
    """Whether the new sentence replaces what the old one says is in use: "npm 대신 pnpm을 사용한다", "npm에서 pnpm으로 전환했다"."""
    match = _INSTEAD.search(new) or _FROM_TO.search(new)
    if match is None or not _IN_USE.search(old):
        return False
    replaced = set(parse_korean_statement(_PARTICLES.sub("", match[1])).keys)
    has_predicate = any(word.in_predicate for word in before.words)
    subject = {word.key for word in before.words if not word.in_predicate} if has_predicate else set()
    return bool(replaced) and replaced <= set(before.keys) and (subject - replaced) <= set(after.keys)


def _compare_negations(
    old: ParsedStatement, new: ParsedStatement, changes: Sequence[StatementChange]
) -> Comparison:
    if abs(old.negations - new.negations) != 1 or min(old.negations, new.negations) > 0:
        return UNKNOWN
    if not changes:
        if old.hedged or new.hedged or len(old.words) < 2:
            return doubtful(0.6, "one denies what the other says of some")
        if old.event != new.event and not new.ended:
            return doubtful(0.6, "one denies what the other says of another time")
        return opposed(0.9, "one denies what the other says")
    if any(change.both and not change.in_predicate for change in changes):
        return apart(0.8, "they are about different things")
    return UNKNOWN


def _compare_values(
    old: ParsedStatement, new: ParsedStatement, changes: Sequence[StatementChange]
) -> Comparison:
    if not changes:
        return SAME_WORDS
    has_subject = any(word.in_predicate for word in old.words)
    if len(changes) == 1 and changes[0].both and _are_opposite(changes[0]):
        if old.hedged or new.hedged or old.event != new.event or not (has_subject or changes[0].before):
            return doubtful(0.5, changes[0].values)
        return opposed(0.85, changes[0].values)
    if not any(change.both for change in changes):
        return judge_addition(changes)
    if has_subject and any(change.both and not change.in_predicate for change in changes):
        return apart(0.85, "they are about different things")
    if len(changes) > 1 or not changes[0].both or not has_subject or old.hedged or new.hedged:
        return UNKNOWN
    return _compare_value(old, new, changes[0])


def _compare_value(old: ParsedStatement, new: ParsedStatement, change: StatementChange) -> Comparison:
    if old.event or new.event:
        return UNKNOWN
    dated = change.kinds == {"date"}
    if dated and may_be_same_day(*change.keys):
        return UNKNOWN
    units = compare_units(change)
    if units is not None:
        return units
    if change.kinds == {"number"} and len(change.removed) <= 2 and len(change.added) <= 2:
        unit = change.after[0].key if change.after else ""
        if unit in _WHICH or any(word.key in _WHICH for word in change.words):
            return UNKNOWN
        if _is_document_sum(change):
            return UNKNOWN
        if old.limited or new.limited or _runs_somewhere(change):
            return doubtful(0.5, change.values)
        return opposed(0.85, change.values)
    subject = [word.key for word in change.before if not word.in_predicate]
    is_attribute = (
        bool(subject) and subject[-1] in _ATTRIBUTES and all(not word.in_predicate for word in change.before)
    )
    if is_attribute and len(change.removed) == len(change.added) == 1:
        return opposed(0.85, change.values)
    if dated or change.kinds == {"name"}:
        return doubtful(0.5, change.values)
    return UNKNOWN


def _runs_somewhere(change: StatementChange) -> bool:
    """Whether the value is one of perhaps several platforms: "테스트는 Python 3.11에서 실행한다"."""
    return change.removed[-1].raw.endswith("에서") and change.added[-1].raw.endswith("에서")


def _is_document_sum(change: StatementChange) -> bool:
    """Whether the sum of a document differs: "송장 금액은 300달러이다"."""
    subject = {word.key for word in change.before if not word.in_predicate}
    return bool(subject & _DOCUMENTS) and subject <= _DOCUMENTS | _SUMS


def _are_opposite(change: StatementChange) -> bool:
    if len(change.removed) != 1 or len(change.added) != 1 or not change.before:
        return False
    return any(
        opposite_korean(left, right)
        for left in _roots(change.removed[0].key)
        for right in _roots(change.added[0].key)
    )


def _roots(key: str) -> tuple[str, ...]:
    """The key and its possible base form: "가능" for "가능하", "빠르" for "빠른"."""
    decomposed = unicodedata.normalize("NFD", key)
    bare = unicodedata.normalize("NFC", decomposed[:-1]) if decomposed.endswith(_MODIFYING) else key
    return key, (key[:-1] if len(key) > 2 and key[-1] in "하되" else bare)

"""A Korean sentence as what is compared: particles and endings off, negations told apart."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from mindhold.engine.text.expression import Expression
from mindhold.engine.text.statement import Statement, Word
from mindhold.engine.text.wording import DATE_WORDS

NEGATED = "\uf8ff"  # stands where a negation was
_REWRITTEN = (
    # "사용하지 않는다", "먹지 못했다": the verb, then the mark.
    (
        Expression(r"지(?:는|도|를|가)?\s*(?:않|못하|못했|못할|못한|못해|못 ?하)\S*"),
        "다 " + NEGATED,
    ),
    (Expression(r"필요(?:가|는|성이)?\s*없\S*"), f"필요하다 {NEGATED}"),
    (Expression(r"(?<!\S)(?:안|못)\s+(?=\S)"), f"{NEGATED} "),
    (Expression(r"(?<!\S)없(었|을|는|이|던)?\S*"), rf"있\1다 {NEGATED}"),
    (Expression(r"(?<=\S)없(었|을|는|이)(\S*)"), rf" 있\1다 {NEGATED}"),
    (Expression(r"(?<=\S\S)(?:되어|돼)\s+있\S*"), "되다"),  # "공개되어 있다"
    (Expression(r"(?<!\d)(?:(\d{4}년)\s*)?(\d{1,2}월)\s+(\d{1,2}일)(?!간|\s*동안)"), r"\1\2\3"),  # one date
    (Expression(r"(?:이|가)?\s*(?:아니다|아닙니다|아니었다|아니에요|아니였다|아님)"), f" {NEGATED}"),
)
_DATE = r"(?:\d{4}년)?\d{1,2}월(?:\d{1,2}일)?"
_PIECE = Expression(
    _DATE + r"|[0-9][0-9.,:/-]*|[A-Za-z][A-Za-z0-9_.+#/-]*|[가-힣]+|" + NEGATED + r"|[%$€£¥₩]"
)
_PARTICLE = Expression(
    r"(?<=..)(?:에서는|에게는|으로는|께서는|에서도|까지는|부터는|이라는|라는|에서|에게|으로|께서|까지|부터|보다|처럼|에는|에도|로는|와는|과는|이나|마다|이며"
    r"|은|는|이|가|을|를|의|에|로|와|과|도|만|랑|나)$|(?<=^.)(?:을|를|은|는|이|가|에)$"
)
_WHOLE = frozenset(
    "같이 많이 높이 깊이 길이 차이 사이 나이 아이 종이 놀이 회의 주의 동의 문의 국가 평가 증가 휴가 추가 개인 확인 사과 결과 효과 제도 정도 온도 속도 지도 하나 누나 언제나".split()
)
_SUBJECT = Expression(r"(?:은|는|이|가|께서|께서는|에서는|에는)$")
_DOING = Expression(
    r"^(.{1,}?)(?:하|한|할|함|합|했|해|하여|하였)(?:다|고|며|는|던|여|지|면|기|게|려|자|요|니다|습니다|ㄴ다)?\S{0,4}$"
)
_DOES = Expression(
    r"^(?:한다|합니다|했다|했습니다|했음|해요|했어요|하였다|하다)$"
)  # of its own: "재시도를 했다"
_BECOMING = Expression(r"^(.{2,}?)(?:되|된|될|됨|됩|됐|돼|되어|되었)\S{0,4}$")
_BEING = Expression(r"^(.{1,}?)(?:이다|입니다|이었다|였다|이에요|예요|이며|인|임|이라고)$")
# The endings of other verbs, decomposed: "먹는다" and "먹었습니다" to "먹".
_ENDINGS = tuple(
    unicodedata.normalize("NFD", ending)
    for ending in (
        "었습니다 았습니다 였습니다 겠습니다 습니다 었어요 았어요 었다고 았다고 는다고 었다 았다 였다 겠다 는다 었음 았음 네요 더라 어요 아요 여요 지요 지만 "
        "아서 어서 는데 으며 으면 면서 려고 도록 었던 았던 죠 음 은 는 을 고 며 면 어 아 여 게 다 요 \u11b8니다"
    ).split()
)
_FINALS = (
    "\u11ab",
    "\u11af",
    "\u11b7",
    "\u11b8",
    "\u11bb",
)  # -ㄴ -ㄹ -ㅁ -ㅂ -ㅆ, as in "간다", "갈", "감", "갑니다", "갔다"
_PAST = Expression(
    r"(?:었|았|였|했|됐|졌|렸|갔|왔|봤|났|섰|샀|탔|켰|꼈|텼|쳤|셨|냈|뒀|줬|꿨|웠|겼|녔|혔|썼|컸|떴)(?:다|습니다|어요|음|던|는데|고|으며|지만|을|었)"
)
_FORMER = Expression(r"이전에|예전|과거|원래|처음에|했었|까지는|까지만|당시|옛날|작년|지난")
_COMING = Expression(r"(?:할|될|을|갈|올) (?:것|예정|계획)|겠다|겠습니다|앞으로|내일|다음 ?(?:주|달|해)|예정")
_HEDGED = Expression(
    r"일부|몇|대부분|많은|때때로|가끔|종종|수도 있|것 같|듯|아마|또는|혹은|거나|만약|만일|경우|때만|조차|뿐만|아니라|밖에|거의|별로|그다지|다른|일 수|모든|모두|반드시|항상"
)
_LIMITED = Expression(
    r"이상|이하|미만|초과|약 |정도|최대|최소|까지|넘|대략|가량|쯤|여 ?(?:명|개)|이내|적어도"
)
_ENDED = Expression(r"더 ?이상")
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
_USING = {
    "쓰": "사용하",
    "쓴": "사용하",
    "쓸": "사용하",
    "쓰인": "사용되",
    "쓰이": "사용되",
    "이용하": "사용하",
}


@lru_cache(512)
def statement_korean(sentence: str) -> Statement:
    """Pure; the last ones are remembered."""
    text = " ".join(sentence.split())
    rewritten = text
    for pattern, put in _REWRITTEN:
        rewritten = pattern.sub(put, rewritten)
    words: list[Word] = []
    negations = 0
    told = False
    for chunk in rewritten.split():
        raw = chunk.strip(".,!?\"'“”‘’()[]{}~…·、。")
        if not raw:
            continue
        if raw == NEGATED:
            negations += 1
            continue
        topical = not told and _SUBJECT.search(raw) is not None and len(raw) > 1
        for key, kind in _keys(raw):
            if key == NEGATED:
                negations += 1
            elif key and key not in _DROPPED:
                words.append(Word(_USING.get(key, key), raw, kind, told))
        told = told or topical
    return Statement(
        words=tuple(words),
        verbs=frozenset(word.key for word in words[-1:]),
        negations=negations,
        hedged=bool(_HEDGED.search(text)),
        limited=bool(_LIMITED.search(text)),
        past=bool(_FORMER.search(text)),
        future=bool(_COMING.search(text)),
        ended=bool(_ENDED.search(text)),
        event=bool(_PAST.search(text)),
        linked=bool(_BEING.match(rewritten.split()[-1].strip(".!?"))) if rewritten.split() else False,
    )


def _keys(raw: str) -> list[tuple[str, str]]:
    """Of one chunk: the noun without its particle, or the verb's stem; a number and its unit apart."""
    pieces = _PIECE.findall(raw)
    if len(pieces) == 1 and "가" <= pieces[0][0] <= "힣":
        if pieces[0] in _NUMERALS:
            return [(_NUMERALS[pieces[0]], "number")]
        stem = _stem(pieces[0])
        return [(stem, "date" if stem in DATE_WORDS else "words")]
    found: list[tuple[str, str]] = []
    for place, piece in enumerate(pieces):
        if piece == NEGATED:
            found.append((piece, "words"))
        elif piece[0].isdigit() and "월" in piece:
            found.append((piece, "date"))
        elif piece[0].isdigit():
            found.append((piece.rstrip(".,:/-").replace(",", ""), "number"))
        elif piece[0].isascii():
            found.append((piece.rstrip("./-").lower(), "name"))
        elif place and not pieces[place - 1][0].isascii():
            found.append((_stem(piece), "words"))
        else:  # what hangs on a number or a name: a unit, or a particle, which is dropped
            unit = next(
                (each for each in sorted(_COUNTERS, key=len, reverse=True) if piece.startswith(each)), ""
            )
            if unit and found and found[-1][1] == "number":
                found.append((unit, "number"))
            elif len(piece) > 2 and not _BARE.fullmatch(piece):
                found.append((_stem(piece), "words"))
    return found


_SOFTENED = Expression(r"^(.+[^\W\d_ㄱ-ㅎ])(?:워요|워서|웠다|웠습니다|웠어요|운|워|우며|우면|웠음|울)$")
_BARE = Expression(
    r"(?:은|는|이|가|을|를|의|에|에서|로|으로|와|과|도|만|까지|부터|이다|입니다|이었다|였다|이고|이며|에는|에서는|으로는|이라|라고|다)+"
)


@lru_cache(4096)
def _stem(word: str) -> str:
    for pattern, ending in ((_DOING, "하"), (_BECOMING, "되")):
        match = pattern.match(word)
        if match and len(match[1]) >= 1:
            return match[1] + ending
    if _DOES.match(word):
        return "하"
    if word.startswith("있"):
        return "있"
    match = _BEING.match(word)
    if match and len(match[1]) > 1:
        return str(match[1])
    if word in _WHOLE:
        return word
    without = _PARTICLE.sub("", word)
    if without != word:
        return without
    softened = _SOFTENED.match(word)
    if softened:  # "어두워요" and "어두운" to "어둡"
        return unicodedata.normalize("NFC", unicodedata.normalize("NFD", softened[1]) + "\u11b8")
    apart = unicodedata.normalize("NFD", word)
    for ending in _ENDINGS:
        if apart.endswith(ending) and len(apart) > len(ending) + 1:
            apart = apart[: -len(ending)]
            if apart.endswith(_FINALS) and ending in _AFTER_FINAL:
                apart = apart[:-1]
            return unicodedata.normalize("NFC", apart)
    return word


_AFTER_FINAL = frozenset(unicodedata.normalize("NFD", ending) for ending in "다 습니다 요 음 던 어요".split())

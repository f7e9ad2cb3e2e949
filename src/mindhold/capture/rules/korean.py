"""Statements in Korean, where the end of a sentence says how it is meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mindhold.capture.extracted_items import LONGEST, RuleCandidate, signs_metadata
from mindhold.capture.rules.sentences import Sentence, clean_sentence, is_korean, is_momentary, is_question
from mindhold.memories.reflect import OPEN_QUESTION
from mindhold.model.error_signs import error_signs
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role
from mindhold.text.noise import rate_worth
from mindhold.text.pattern import LazyPattern

SHORTEST = 7  # characters; each is a syllable

_END = r"[.!~\s]*$"
_OBJECTS = LazyPattern(
    r"^(?:아니(?:요|야|오)?|아뇨|틀렸(?:어요?|습니다)|사실(?:은)?|참고로|그리고|그럼|네|응)[,.!]?\s+"
)
_DECISION = LazyPattern(
    r"기로 (?:했|결정|합의|하(?:자|죠|였|겠)|정했|합니다)|(?:으로|로|를|을) (?:결정|확정|선택|채택)(?:했|합니다|하였|하자|됐|되었)"
    rf"|(?:으로|로|를|을|만|은|는) (?:가자|갑시다|하자|합시다|하죠|쓰자|씁시다|쓰죠|사용하자|사용합시다|바꾸자|바꿉시다|유지하자|유지합시다|통일하자|통일합시다|빼자|뺍시다){_END}"
    r"|(?:지원하지|사용하지|쓰지) 않기로"
)
_STARTING = LazyPattern(r"부터|시작하|시작합|먼저|나중|다음에|볼까|해\s?보자|테스트해|확인하|넘어가")
_REQUEST = rf"(?:주세요|주십시오|줘요?|하세요|쓰세요|해요|하도록|바랍니다|부탁(?:해요?|드립니다|합니다)|합니다|한다|써요?|쓸 것|할 것|세요){_END}"
_PERMANENT = LazyPattern(
    rf"(?:항상|언제나|절대로?|앞으로(?:는|도)?|매번|무조건|모든|모두|전부|(?:할|쓸|작성할|추가할|만들|올릴|수정할|커밋할|배포할) 때(?:는|마다)?|마다|꼭|전에는?) .*{_REQUEST}|(?:항상|절대|앞으로|무조건|언제나) .{{2,}}"
)
_STYLE = LazyPattern(
    rf"(?:메시지|메세지|주석|문서|답변|대답|설명|이름|변수명?|함수명?|파일명|코드|테스트|날짜|브랜치|로그|에러|오류|스타일|들여쓰기|따옴표|응답|커밋|타입|쿼리|PR|API)\S*(?:은|는|도|을|를) .*(?:{_REQUEST}|야 (?:해요?|합니다|한다){_END})"
)
_INSTEAD = LazyPattern(rf"(?:대신|말고|보다는?) .*(?:{_REQUEST}|씁니다|쓴다|사용(?:합니다|해요?|한다){_END})")
_FORBIDDEN = LazyPattern(
    rf"(?:지|진|지는) ?(?:마(?:세요|라|요)?|말아\s?(?:주세요|줘)?|말 것|맙시다|말자){_END}|(?:쓰|사용하)지 않(?:습니다|아요){_END}"
)
_EVER = LazyPattern(r"항상|언제나|절대|앞으로|매번|무조건")
_LIKING = LazyPattern(
    r"(?:선호(?:해|합니다|한다|하)|좋아(?:해요?|합니다|한다)|싫어(?:해요?|합니다|한다)|더 좋(?:아요?|습니다)|원(?:해요?|합니다|한다))"
)
_STEP = LazyPattern(
    r"(?:실행|확인|수정|삭제|설명|추가|변경|검토|요약|진행|시작|보여|알려|찾아|고쳐|만들어|올려|돌려|바꿔|지워)\s?(?:해\s?)?(?:주세요|줘요?|봐요?|보세요)"
)
_WARNING = LazyPattern(
    r"(?:^|\s)(?:주의|조심|경고|유의)(?:\s?:|하|할|사항)|그렇지 않으면|안 그러면|(?:없으면|않으면|안 하면|빠지면|넘으면|꺼져 있으면|있으면|하면|되면) .*(?:시작됩|실패|오류|에러|깨[져지집]|안 (?:됩|돼|되)|멈[춥추]|동작하지|작동하지|사라|삭제|됩니다|없습니다)"
    rf"|반드시 .*(?:해야|필요|합니다)|(?:동작|작동|지원|허용|호환)(?:하|되)지 않|(?:만|에서만|때만) (?:동작|작동|지원|실행|가능|됩)|(?:먼저|전에|후에) .*(?:해야|켜야|시작해야) (?:합니다|해요?|한다){_END}|알고 보니|한도는|제한(?:은|이) .*\d|제한(?:됩|되어|돼)|이면 .*(?:실패|오류|에러|안 (?:됩|돼|되)|멈)"
)
_OPEN = LazyPattern(
    r"(?:다음 단계|다음 작업|다음으로|남은 (?:작업|일|것|건|과제)|할 일|미완료|미해결)|아직 .*(?:못|않|남|안 |없|전입|미완)|(?:남아 있|남았)|(?:나중에|추후|이후에?) .*(?:해야|필요)|(?:추가|작성|구현|수정|업데이트|마이그레이션)(?:해야|이 필요|가 필요)"
)
_CAUSE = LazyPattern(
    r"(?:원인은|원인이|이유는)|(?:때문에|때문이|(?:이?라|어|아|여|해|돼|되어|없어)서) .*(?:실패|발생|생겼|멈|깨졌|죽|느려|오류|에러|안 (?:됐|되었)|해결|고쳤|수정했)|(?:하니|바꾸니|올리니|설치하니|하자|했더니|바꿨더니) .*(?:해결|됩니다|됐|정상|고쳐)|(?:오류|에러|문제|버그|실패|충돌)\S* .*(?:해결(?:했|됐|되|하)|고쳤|수정했)"
)
_FACT = LazyPattern(
    rf"(?:은|는|이|가|에서|의|팀|에) .*(?:에 있(?:습니다|어요?|다|고|으며)|(?:사용|담당|관리|지원|운영|배포|저장|처리|호스팅|공유|구성|제공|개발|작성|작업|실행|수집|전송|로그인|릴리스|빌드|측정|제작)(?:합니다|해요?|한다|하고|되어|돼|됩니다|된다|됨|중입니다)\S*(?: 있\S+)?|돌아(?:갑니다|가요|간다)|(?:씁니다|써요|쓴다|쓰고 있\S+)|(?:입니다|이에요|예요|이다)|에서 (?:합니다|해요?|한다)|(?:있습니다|있어요|있다|없습니다|없어요|없다)){_END}"
)
_NO_FACT = LazyPattern(
    r"^(?:테스트|오류|에러|문제|버그|이유|결과|질문|회의|수정|변경|이것|그것|여기)\S*(?:은|는|이|가) |(?:실패|오류|에러|버그|문제)(?:가|이|입|합)|(?:안 |못 )|감사|죄송|좋(?:습니다|아요)|맞(?:습니다|아요)|중입니다|(?:급합|바쁩)|같(?:습니다|아요)|궁금|필요합니다"
)
_OF_PEOPLE = LazyPattern(r"^(?:저|나|제|내)(?:는|가|의)? |팀|고객|사용자|회사|티켓|이름")


def korean_statements(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield statements of the user, and warnings, causes and open ends of the assistant's last message."""
    last = max((each.line for each in sentences if each.closing and not each.aside), default=0)
    for sentence in sentences:
        if (
            not is_korean(sentence.text)
            or sentence.aside
            or sentence.speculative
            or is_question(sentence.text)
        ):
            continue
        text = _OBJECTS.sub("", clean_sentence(sentence.text))
        if not SHORTEST <= len(text) <= LONGEST or rate_worth(text).dangling:
            continue
        candidate = (
            _user_candidate(text, sentence.line)
            if sentence.role == Role.USER
            else _assistant_candidate(text, sentence, last=last)
        )
        if candidate:
            yield candidate


def _user_candidate(text: str, line: int) -> RuleCandidate | None:
    if _DECISION.search(text) and not _STARTING.search(text):
        return RuleCandidate(Kind.DECISION, text, line, 0.9)
    if cause := _cause_candidate(text, line):
        return cause
    if _WARNING.search(text) and not _EVER.search(text):
        return RuleCandidate(Kind.GOTCHA, text, line, 0.8)
    if is_momentary(text) and not _EVER.search(text):
        return None
    if _FORBIDDEN.search(text) or _LIKING.search(text) or _INSTEAD.search(text) or _PERMANENT.search(text):
        is_step = _STEP.search(text) and not _INSTEAD.search(text) and not _PERMANENT.search(text)
        return None if is_step else RuleCandidate(Kind.PREFERENCE, text, line, 0.9)
    if "아니라 " in text:
        return RuleCandidate(Kind.DECISION, text, line, 0.8)
    if _STYLE.search(text) and not _STEP.search(text):
        return RuleCandidate(Kind.PREFERENCE, text, line, 0.85)
    if _FACT.search(text) and not _NO_FACT.search(text) and len(text.split()) > 2:
        kind = Kind.CONTEXT if _OF_PEOPLE.search(text) else Kind.ARCHITECTURE
        return RuleCandidate(kind, text, line, 0.8)
    return None


def _assistant_candidate(text: str, sentence: Sentence, *, last: int) -> RuleCandidate | None:
    if not sentence.closing or text.endswith(
        ("하겠습니다.", "할게요.", "보겠습니다.", "말씀해 주세요.", "드릴게요.")
    ):
        return None
    if cause := _cause_candidate(text, sentence.line):
        return cause
    if sentence.line == last and _OPEN.search(text):
        return RuleCandidate(Kind.PROGRESS, text, sentence.line, 0.8, tags=(OPEN_QUESTION,))
    if _WARNING.search(text):
        return RuleCandidate(Kind.GOTCHA, text, sentence.line, 0.8)
    return None


def _cause_candidate(text: str, line: int) -> RuleCandidate | None:
    if not _CAUSE.search(text) or len(text.split()) < 4:
        return None
    return RuleCandidate(Kind.ERROR, text, line, 0.8, metadata=signs_metadata(error_signs(text)))

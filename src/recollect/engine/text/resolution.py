"""Whether one text says how the failure was resolved that another one tells of. When unsure: no."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from recollect.engine.text.expression import Expression
from recollect.engine.text.keywords import is_korean_verb, korean_stem, telling_words
from recollect.model.keywords import keyword_form
from recollect.model.stop_words import STOP_WORDS

_SOLVED = Expression(
    r"\b(?:fixed|resolved|solved|cured|remedied|mitigated|worked around|workaround|solution|remedy|fix(?=\s*(?::|is|was))"
    r"|(?:no longer|stopped) (?:fail|happen|occur|crash|hang|appear)\w*)\b"
    r"|해결(?:했|됐|됨|함|되었|하였|한다|된다|책|법|\s*방법|\s*완료|\s*[:：])|고쳤|고쳐졌|(?:수정|조치)(?:했|하여|해서|하니|함|됨|\s*완료)"
    r"|解決(?:した|しました|済|策|方法|され)|直した|直った|直りました|修正(?:した|しました|済)"
    r"|已解[决決]|解[决決](?:了|方法|方案|办法|辦法|[:：])|已修[复復]|修[复復]了",
    re.IGNORECASE,
)
# A fix that is only hoped for, or that did not help.
_UNSOLVED = Expression(
    r"\b(?:not|never|n[o'’]t|cannot|can't|without|unless|until|if|nobody|no|to be|must be|should be|will be|would be|needs? to be|yet|wasn't|isn't|hasn't)"
    r"(?:\s+\w+){0,3}\s+(?:fixed|resolved|solved|cured|remedied|mitigated|workaround|solution|remedy|fix)\b"
    r"|\b(?:un(?:re)?solved|unresolved|unfixed)\b|\bstill (?:fail|happen|occur|crash|hang|appear|unclear|there|open)\w*"
    r"|미해결|해결(?:되지|하지|이)?\s*(?:않|못|안|안\s*됨|불가)|해결\s*(?:필요|예정|방법을?\s*(?:찾|모))|고치지\s*못"
    r"|未解決|解決(?:して(?:い)?ない|できな|していません|しない)|直らな|未解[决決]|[没沒]有?解[决決]|[无無]法解[决決]|尚未|待解[决決]",
    re.IGNORECASE,
)
_CLAUSE = r"[.!?。！？;；\n]+(?=\s|$|[^\x00-\x7f])"
_REASON = Expression(
    r"\b(?:because|since|so that|by|after|once|until|when we|we)\b|[:：]|[하해]여?서|때문|ので|から|因为|因為",
    re.IGNORECASE,
)
# Words that many failures share: they tell that something failed, not what.
_FAILURE_WORDS = """fail fails failed failing failure fault error errors exception crash crashes crashed crashing break breaks broke broken
 stop stops stopped hang hangs hung problem issue bug wrong occur occurs occurred happen happens happened throw throws threw thrown
 raise raises raised report reports reported get gets got return returns returned say says said show shows showed see seen
 appear appears sometimes always often again due cause caused causes reason fix fixed resolve resolved solve solved solution workaround
 remedy work works worked start starts started try tries tried message log logs run runs ran
 실패 오류 에러 장애 문제 발생 중단 원인 해결 해결책 해결법 수정 조치 방법 확인 경우 상태 현상
 失敗 失败 错误 錯誤 エラー 障害 問題 问题 発生 发生 原因 解決 解决 修正 修复 対応 出现 异常 例外"""
FEWEST = 2  # words that name a failure; one alone names too many


def says_how_resolved(text: str) -> bool:
    """Whether it tells of a fix that was made, not of one that is wanted."""
    return _SOLVED.search(text) is not None and _UNSOLVED.search(text) is None


def resolves(new: str, old: str) -> bool:
    """Whether the new text names the very failure that the old one tells of, and what resolved it."""
    if not says_how_resolved(new) or says_how_resolved(old):
        return False
    failure, told = _words(_failure(old)), _words(new)
    if len(failure) < FEWEST:
        return False
    missing = failure - told
    # Said in other words: the same error by name, and nothing foreign where the new text names the failure.
    if missing and not (_signs(old) and _signs(old) <= _signs(new)):
        return False
    return not missing or (len(missing) * 3 <= len(failure) and not _words(_failure(new)) - _words(old))


def _failure(text: str) -> str:
    """What failed, as far as it is said before the reason or the fix."""
    first = re.split(_CLAUSE, text.strip(), maxsplit=1)[0]
    ends = [
        match.start() for match in (_REASON.search(first), _SOLVED.search(first)) if match and match.start()
    ]
    return first[: min(ends)] if ends else first


def _words(text: str) -> frozenset[str]:
    short = frozenset(_SHORT.findall(text)) - STOP_WORDS
    return (short | frozenset(_forms(word for word, _ in telling_words(text)))) - _generic()


def _forms(words: Iterable[str]) -> Iterable[str]:
    for word in words:
        if not is_korean_verb(word):
            yield keyword_form(korean_stem(word))


def _signs(text: str) -> frozenset[str]:
    """Names of errors and codes: ECONNREFUSED, KeyError, E1101, 0x80004005, 503."""
    return frozenset(match[0].casefold() for match in _SIGN.finditer(text))


_SIGN = Expression(
    r"\b(?:[A-Z][A-Z0-9_]{3,}|\w+(?:Error|Exception|Fault|Warning)|[A-Z]{1,4}-?\d{2,6}|0x[0-9a-fA-F]{2,}|[1-5]\d\d)\b"
)
_SHORT = Expression(r"\b[a-z0-9]{2}\b")  # pg, ui, s3: too short for a keyword, and yet what it is about


@cache
def _generic() -> frozenset[str]:
    return frozenset(_forms(_FAILURE_WORDS.split()))

"""Decides whether one text says how the failure in another text was resolved. When unsure, it says no."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from mindhold.model.lexemes import STOP_WORDS, keyword_form
from mindhold.text.keywords import is_korean_verb, korean_stem, score_words
from mindhold.text.pattern import LazyPattern

_SOLVED = LazyPattern(
    r"\b(?:(?<!\ba )(?<!\bthe )(?:fixed|resolved)|solved|cured|remedied|mitigated|worked around"
    r"|(?:fix|workaround|solution|remedy)(?=\s*:|\s+(?:is|was)\s+(?:to|by|a|an|the)\b|\s+for\s[^.;:\n]{1,120}?(?::|\s(?:is|was)\s+(?:to|by)\b))"
    r"|(?:no longer|stopped) (?:fail|happen|occur|crash|hang|appear)\w*)\b"
    r"|해결(?:했|됐|됨|함|되었|하였|한다|된다|\s*완료|(?:책|법|\s*방법)?\s*[:：])|고쳤|고쳐졌|(?:수정|조치)(?:했|하여|해서|하니|함|됨|\s*완료)"
    r"|解決(?:した|しました|済|され|(?:策|方法)\s*[:：])|直した|直った|直りました|修正(?:した|しました|済)"
    r"|已解[决決]|解[决決](?:了|(?:方法|方案|办法|辦法)?\s*[:：])|已修[复復]|修[复復]了",
    re.IGNORECASE,
)
# A fix that is only hoped for, only claimed, or that did not help.
_UNSOLVED = LazyPattern(
    r"\b(?:not|never|n[o'’]t|cannot|can't|without|unless|until|if|nobody|no|to be|must be|should be|will be|would be|needs? to be|yet|wasn't|isn't|hasn't)"
    r"(?:\s+\w+){0,3}\s+(?:fixed|resolved|solved|cured|remedied|mitigated|workaround|solution|remedy|fix)\b"
    r"|\b(?:un(?:re)?solved|unresolved|unfixed)\b|\bstill (?:fail|happen|occur|crash|hang|appear|unclear|there|open)\w*"
    r"|\b(?:needed|wanted|required|looking for|look for|searching for|searched for|in search of|need an?|wants? an?|hop(?:e|es|ed|ing)"
    r"|c[ao]mes? back|came back|is back|reappear\w*|recur\w*|again|remains?|persists?|claim\w*|allegedly|supposedly|seems?|apparently|maybe"
    r"|perhaps|partly|partially|temporarily|in review|todo|tbd|pending|investigat\w*|reopened|reverted|unknown|none"
    r"|whether|think\w*|thought|believe\w*|guess\w*|before we)\b|[?？]"
    r"|미해결|해결(?:되지|하지|이)?\s*(?:않|못|안|안\s*됨|불가)|해결\s*(?:필요|예정|방법을?\s*(?:찾|모))|고치지\s*못"
    r"|필요|계획|해야|조사|찾는\s*중|찾고|검토|예정|재발|다시\s*(?:발생|나타)|여전히|아직|일시적|임시|주장"
    r"|未解決|解決(?:して(?:い)?ない|できな|していません|しない)|直らな|未解[决決]|[没沒]有?解[决決]|[无無]法解[决決]|尚未|待解[决決]"
    r"|再発|再び|調査中|必要|まだ|再次|仍然|依然|需要|调查|調查",
    re.IGNORECASE,
)
# The fixed thing follows at once: "fixed the logging".
_FIX_VERB = (
    r"(?<!\ba )(?<!\bthe )\b(?:fixed|resolved|solved|cured|remedied|mitigated|worked around)\s+"
    r"(?!by\b|with\b|using\b|via\b|through\b|in\b|on\b|it\b|this\b|that\b|after\b|once\b|since\b|when\b)"
)
_FIXED_THING = LazyPattern(_FIX_VERB + r"(?P<what>[^.;:,\n]+)", re.IGNORECASE)
# "To fix the importer's KeyError, strip the lines": instructions; but not if somebody has yet to find out.
_HOW_TO = LazyPattern(
    r"^(?:in order )?to (?:fix|resolve|solve|cure|remedy|mitigate|work around|get rid of)\s+(?P<what>[^.;,\n]+),\s*"
    r"(?!(?:we|i|they|he|she|it|the|a|an|our|my|this|that|there|some\w*|try|ask|find|figure|look|wait|decide|check|see|open|file)\b)\w",
    re.IGNORECASE,
)
_FIX_FOR = LazyPattern(
    r"^(?:the |a |our )?(?:fix|workaround|solution|remedy) for (?P<what>[^.;,\n]{1,120}?)(?:\s(?:is|was)\b|:(?=\s))",
    re.IGNORECASE,
)
# What ends the name of the failure in a clause before its fix.
_INTERRUPTION = LazyPattern(
    r"\b(?:because|since|so that)\b|(?<!Error)(?<!Exception)[:：](?=\s)|[,，]|\s[-–—]\s", re.IGNORECASE
)
_MEANS = (LazyPattern(r"\sby\s"), LazyPattern(r"\s(?:with|using|via|through)\s"))
_KOREAN_FAILURE = LazyPattern(
    r"^(?P<what>.*?(?:오류|에러|실패|문제|장애|현상|예외|버그|중단|지연|누락|충돌|Error|Exception))[은는을를이가]\s"
)
_KOREAN_MEANS = r"(?:[해하]여?서|하여|하고|[가-힣][려꿔워춰켜아어]서)\s"  # the means, named first
_KOREAN_FIXED_THING = LazyPattern(r"(?P<what>\S{1,40})[을를]\s*(?:해결|고쳤|수정|조치)(?!하여|해서|하니)")
_HANGUL = LazyPattern("[\uac00-\ud7a3]")
_ASIAN = LazyPattern("[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
# One failure in several spellings.
_TIMEOUT = LazyPattern(
    r"\b(?:tim(?:e|es|ed|ing)[\s-]out|timeouts?|Timeout(?:Error|Exception))\b", re.IGNORECASE
)
_DIGIT = LazyPattern(r"(?<![\w.])\d(?![\w.])")
_FIXED_CLAUSE = LazyPattern(_FIX_VERB + r"(?P<what>[^.;,\n]+)", re.IGNORECASE)
_QUOTED = LazyPattern(r"(?<!\w)(?:'[^'\n]{1,60}'|`[^`\n]{1,60}`|\"[^\"\n]{1,60}\"|“[^”\n]{1,60}”)")
_CLAUSE = r"[.!?。！？;；\n]+(?=\s|$|[^\x00-\x7f])"
_REASON = LazyPattern(
    r"\b(?:because|since|so that|by|after|once|until|when we|we)\b|[:：]|[하해]여?서|때문|ので|から|因为|因為",
    re.IGNORECASE,
)
_BECAUSE = LazyPattern(r"\b(?:because|so that)\b|때문|ので|から|因为|因為", re.IGNORECASE)
# Words that many failures share: they say that something failed, not what.
_FAILURE_WORDS = """fail fails failed failing failure fault error errors exception crash crashes crashed crashing break breaks broke broken
 stop stops stopped hang hangs hung problem issue bug wrong occur occurs occurred happen happens happened throw throws threw thrown
 raise raises raised report reports reported get gets got return returns returned say says said show shows showed see seen
 appear appears sometimes always often again due cause caused causes reason fix fixed resolve resolved solve solved solution workaround
 remedy work works worked start starts started try tries tried message log logs run runs ran
 실패 오류 에러 장애 문제 발생 반환 중단 원인 해결 해결책 해결법 수정 조치 방법 확인 경우 상태 현상
 失敗 失败 错误 錯誤 エラー 障害 問題 问题 発生 发生 原因 解決 解决 修正 修复 対応 出现 异常 例外"""
_FAILURES = """failure fault error errors exception crash crashes problem issue bug hang hangs
 오류 에러 실패 문제 장애 현상 예외 버그 중단"""
FEWEST = 2  # words that identify a failure; one alone fits too many


def says_how_resolved(text: str) -> bool:
    """Whether the text reports a fix or explains one, as opposed to asking for one."""
    fix = _SOLVED.search(text) or _HOW_TO.search(text.strip())
    return fix is not None and _UNSOLVED.search(text) is None


def resolves(new: str, old: str) -> bool:
    """Whether the new text names the failure that the old one describes, and what resolved it."""
    if not says_how_resolved(new) or says_how_resolved(old):
        return False
    if _HOW_TO.search(new.strip()) and "resolve" in old.casefold():
        return False  # "fails to resolve the host": another sense of the word
    new, old = _TIMEOUT.sub("timeout", new), _TIMEOUT.sub("timeout", old)
    failure, new_words = _words(_failure(old, colon=False)), _words(new)
    if len(failure) < FEWEST or not _quoted(old) <= _quoted(new) | new_words or _fixes_another(new, failure):
        return False
    clause = _named_failure(new)
    named_words = _words(clause)
    if not named_words <= _words(old) or not _digits(clause) <= _digits(old):
        return False  # the failure's name has something foreign in it: another failure
    missing, shared = failure - new_words, failure & named_words
    if named_words and len(shared) * 2 <= len(failure):
        return False  # the other words are about the fix, not the failure
    if not missing:
        return True
    # In other words: the same error name and more than half of what failed, or nearly all of it.
    same_sign = bool(_signs(old)) and _signs(old) <= _signs(new)
    if same_sign:
        return len(shared) >= FEWEST
    return not _signs(old) and len(shared) > FEWEST and len(missing) * 3 <= len(failure)


def _named_failure(new: str) -> str:
    """The words by which a text about a fix names the failure; empty if they can't be separated."""
    text = new.strip()
    for form in (_HOW_TO, _FIX_FOR):
        if match := form.search(text):
            return match["what"]
    if _ASIAN.search(text):
        match = _KOREAN_FAILURE.search(text)
        return re.split(_KOREAN_MEANS, match["what"])[-1] if match else ""
    if match := _FIXED_CLAUSE.search(text):
        return _before_the_means(match["what"])
    first = re.split(_CLAUSE, text, maxsplit=1)[0]
    solved = _SOLVED.search(first)
    before = first[: solved.start()] if solved else first
    if not _words(before):
        return _after_the_fix(text)
    interruption = _INTERRUPTION.search(before)
    return (
        before[: interruption.start()] if interruption and _words(before[: interruption.start()]) else before
    )


def _before_the_means(text: str) -> str:
    """The text without the means: "the timeout" of "the timeout by raising it"."""
    for means in _MEANS:
        if match := means.search(text):
            return text[: match.start()]
    return text


def _fixes_another(new: str, failure: frozenset[str]) -> bool:
    match = _FIXED_THING.search(new)
    text = re.split(r"\b(?:by|with)\b", match["what"])[0] if match else ""
    if not text and _HANGUL.search(new):
        *_, last = [None, *_KOREAN_FIXED_THING.finditer(new)]
        text = last["what"] if last else ""
    forms = frozenset(_forms(word for word, _ in score_words(text)))
    return bool(forms) and not forms & (failure | frozenset(_forms(_FAILURES.split())))


def _after_the_fix(text: str) -> str:
    """The failure after a fix that is named first: "Fixed: login fails in Chrome"."""
    fix = _SOLVED.search(text)
    rest = text[fix.end() :].lstrip(" :：") if fix else ""
    return _failure(rest)


def _quoted(text: str) -> frozenset[str]:
    return frozenset(form for match in _QUOTED.finditer(text) for form in _words(match[0][1:-1]))


def _digits(text: str) -> frozenset[str]:
    return frozenset(_DIGIT.findall(text))


def _failure(text: str, *, colon: bool = True) -> str:
    """What failed, up to the reason or the fix; with `colon`, also up to a colon."""
    first = re.split(_CLAUSE, text.strip(), maxsplit=1)[0]
    ends = [
        match.start()
        for match in ((_REASON if colon else _BECAUSE).search(first), _SOLVED.search(first))
        if match and match.start()
    ]
    return first[: min(ends)] if ends else first


def _words(text: str) -> frozenset[str]:
    short = frozenset(_SHORT.findall(text)) - STOP_WORDS
    return (short | frozenset(_forms(word for word, _ in score_words(text)))) - _generic()


def _forms(words: Iterable[str]) -> Iterable[str]:
    for word in words:
        if not is_korean_verb(word):
            yield keyword_form(korean_stem(word))


def _signs(text: str) -> frozenset[str]:
    """Names of errors and codes: ECONNREFUSED, KeyError, E1101, 0x80004005, 503."""
    return frozenset(match[0].casefold() for match in _SIGN.finditer(text))


_SIGN = LazyPattern(
    r"\b(?:[A-Z][A-Z0-9_]{3,}|\w+(?:Error|Exception|Fault|Warning)|[A-Z]{1,4}-?\d{2,6}|timeout|0x[0-9a-fA-F]{2,}|[1-5]\d\d)\b"
)
_SHORT = LazyPattern(r"\b[a-z0-9]{2}\b")  # pg, ui, s3: too short for a keyword, but still a subject


@cache
def _generic() -> frozenset[str]:
    return frozenset(_forms(_FAILURE_WORDS.split()))

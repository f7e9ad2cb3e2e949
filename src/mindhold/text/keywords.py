"""Extracts keywords from a text in any language, and the hashtags in it."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache

from mindhold.model.lexemes import OTHER_STOP_WORDS, STOP_WORDS, keyword_form, stop_lexemes
from mindhold.text.pattern import LazyPattern

MOST_KEYWORDS = 8
_MOST_CHARACTERS = 4_000  # the start of a text says what it is about
_LONGEST = 64
_LONGEST_HAN = 6
_LONGEST_UNSPACED = 16  # a longer run of Thai or Khmer is a clause
_ENOUGH_TO_TELL = 2  # words that identify a text's language

_TOKEN = LazyPattern(r"""[^\s,;()\[\]{}<>"“”„«»‹›。、，！？；：（）「」『』【】《》〈〉…|=*`~^$%&]+""")
_EDGES = ".:!?'’‘-–—/\\·・+#@_"
_SHARP = LazyPattern(r"[cCfF](?:\+\+|#)")
_IDENTIFIER = LazyPattern(r"^\.\w|[^\W\d_]*[a-z0-9][A-Z]|\w[_./\\@:-]\w|[^\W\d_]\d|\d[^\W\d_]|[cCfF][+#]")
_POSSESSIVE = LazyPattern(r"['’][sS]$")
_NUMBER = LazyPattern(r"[\d.,:/-]+")
_REDACTED = LazyPattern(r"\[redacted[^\]]*\]", re.IGNORECASE)

_DOTTED = LazyPattern(r"\.[A-Za-z]\w{1,30}")  # .NET, .env
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
_UNSPACED_RUN = LazyPattern(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_HAS_UNSPACED = LazyPattern(f"[{_UNSPACED}]")
_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff"
_SCRIPT_RUN = LazyPattern(
    f"[{_HAN}]+|[{_KATAKANA}]+|[\u3041-\u309f]+|[\uac00-\ud7a3]+|[^{_HAN}\u3041-\u30ff\uac00-\ud7a3]+"
)
_ASIAN = LazyPattern(f"[{_HAN}\u3041-\u30ff\uac00-\ud7a3]")
_HAN_FUNCTION = LazyPattern(
    "我们|你们|他们|她们|它们|这个|那个|这些|那些|因为|所以|但是|如果|已经|可以|没有|什么|怎么|决定|使用|需要|进行|以及|或者|必须|应该|不能"
    "|我們|你們|他們|這個|那個|這些|因為|但是|已經|沒有|什麼|決定|進行|必須|應該"
    "|[的了是在和与與就也都我你他她它这這那有不把被从從到对對为為以而且但会會能要让讓给給用很更最及或着著过過吗嗎呢吧啊将將並并於于之所個个来來去等地得]"
)
_HAN_FILLER = frozenset(
    "昨日 今日 明日 今回 以下 以上 場合 必要 使用 我々 私達 今天 昨天 明天 时候 問題 问题".split()
)
# Words of three characters; the text between them is cut into words of two.
_HAN_WORDS = LazyPattern(
    "数据库|資料庫|服务器|伺服器|客户端|客戶端|服务端|浏览器|瀏覽器|计算机|配置项|配置文件|环境变量|環境變數|中间件|开发者|管理员|用户名|应用程序"
    "|測試版|测试版|代码库|存储库|文件夹|操作系统|正则式|接口层|微服务|线程池|连接池|队列表|时间戳|性能测|自动化|国际化|可用性|一致性|兼容性|安全性"
    "|環境変数|再起動|未解決|開発者|管理者|利用者|最大値|最小値|初期値|設定値"
)
_KOREAN_PARTICLE = LazyPattern(
    "(?:에서는|에서도|으로는|으로도|에게서|이라는|이라고|로부터|에서|에게|으로|부터|까지|처럼|보다|하고|이나|에는|에도|라는|라고|들은|들이|들을"
    "|이며|마다|밖에|조차|을|를|이|가|은|는|에|의|도|와|과|로|만|들)$"
)
_KOREAN_VERB = LazyPattern(
    "(?:[다요죠까]|니다|지만|하고|해서|하기|하여|했고|되고|되어|어서|아서|면서?|며|려고|도록|는데|[하한할함된될됨던했됐]|않은|않는|있는|없는|같은)$"
)
# "재시작했다", "의존한다", "설정하여": a noun and "do" or "be done"; "증거입니다": a noun and "be".
_KOREAN_NOUN_VERB = LazyPattern(
    "(?:(?:시[켰키킨]|[했하한합해할함되됐된됩될됨])(?:습니다|니다|었습니다|였습니다|[었였]다|[었였]고|다고|다|고|여서?|서|기|면|며|지만|는데?|던|도록|려고|어서?|지)?"
    "|입니다|이었다|이다|였다)$"
)
_KOREAN_FILLER = frozenset(
    "우리 그리고 하지만 그래서 그러나 때문 이것 그것 저것 여기 거기 지금 이제 항상 모든 매우 아주 다시 먼저 위해 대해 통해 경우 이번 정도 이후 이전 것은 것을 것이"
    " 않다 없다 있다 한다 된다 했다 대신 같이 함께 반드시 없이 때는 때에 그때".split()
)


@lru_cache(512)
def extract_keywords(text: str, limit: int = MOST_KEYWORDS) -> tuple[str, ...]:
    """Up to `limit` words as written, the most informative first, each once whatever its ending."""
    scores: dict[str, float] = {}
    written: dict[str, str] = {}
    times: dict[str, int] = {}
    for word, score in score_words(text):
        form = _form(word)
        times[form] = times.get(form, 0) + 1
        scores[form] = max(score, scores.get(form, 0.0))
        written.setdefault(form, word)
    ranked = sorted(scores, key=lambda form: -(scores[form] + 0.3 * math.log(times[form])))
    return tuple(written[form] for form in ranked[:limit])


_form = lru_cache(16_384)(keyword_form)


def score_words(text: str) -> Iterator[tuple[str, float]]:
    """The words as written, in order and with repetitions, each with a score for how informative it looks."""
    text = _REDACTED.sub(" ", text[:_MOST_CHARACTERS])
    asian = not text.isascii() and _ASIAN.search(text) is not None
    unspaced = not text.isascii() and _HAS_UNSPACED.search(text) is not None
    common = _common_words(text)
    starts_sentence = not asian  # capitals in Asian text mark names in any position
    for token in _TOKEN.findall(text):
        ends = token[-1] in ".:!?" and not asian
        if asian and _ASIAN.search(token):
            yield from _asian_words(_trim(token))
        elif unspaced and _HAS_UNSPACED.search(token):
            yield from _unspaced_words(_trim(token))
        elif common and token.strip(_EDGES).lower() in common and not token.isupper():
            pass
        elif (scored := _score_word(token, starts_sentence=starts_sentence)) is not None:
            yield scored
        starts_sentence = ends


def _common_words(text: str) -> frozenset[str]:
    """Stop words of the other languages that the text seems to be in; usually none."""
    words = frozenset(text.lower().split()) & _other_stop_words()
    if not words:
        return frozenset()
    return frozenset().union(
        *(stop_words for stop_words in _by_language() if _identifies_language(stop_words & words))
    )


def _identifies_language(words: frozenset[str]) -> bool:
    """Whether there are two such words, or one that no English text has."""
    return len(words) >= _ENOUGH_TO_TELL or any(not word.isascii() for word in words)


@cache
def _by_language() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(words.split()) for words in OTHER_STOP_WORDS.values())


@cache
def _other_stop_words() -> frozenset[str]:
    return frozenset().union(*_by_language()) - STOP_WORDS


def _unspaced_words(token: str) -> Iterator[tuple[str, float]]:
    """Words of a script without spaces: runs short enough to be one word, and foreign words between them."""
    for run in _UNSPACED_RUN.findall(token):
        if not _HAS_UNSPACED.match(run):
            if (scored := _score_word(run, starts_sentence=False)) is not None:
                yield scored
        elif 2 < len(run) <= _LONGEST_UNSPACED:
            yield run, 0.4 + min(len(run), 12) / 12


def _trim(token: str) -> str:
    if _DOTTED.fullmatch(token.rstrip(_EDGES)):
        return token.rstrip(_EDGES)
    if _SHARP.fullmatch(token.rstrip(".:!?")):
        return token.rstrip(".:!?")
    return _POSSESSIVE.sub("", token.strip(_EDGES))


@lru_cache(16_384)
def _score_word(token: str, *, starts_sentence: bool) -> tuple[str, float] | None:
    token = _trim(token)
    if not token or len(token) > _LONGEST or (_is_stop_word(token) and not token.isupper()):
        return None
    score = _spelling_score(token, starts_sentence=starts_sentence)
    return (token, score) if score else None


def _spelling_score(token: str, *, starts_sentence: bool) -> float:
    """How informative a word looks by its letters; 0 for none at all."""
    length = min(len(token), 12) / 12
    if _NUMBER.fullmatch(token):
        return 0.2 + length / 2 if len(token) > 2 else 0.0
    if _IDENTIFIER.search(token):
        return 1.2 + length
    if token.isupper() and len(token) > 1:
        return 1.1 + length
    if len(token) < 3:
        return 0.0
    if token[:1].isupper():
        return (0.4 if starts_sentence else 0.9) + length
    return 0.2 + length


@lru_cache(4096)
def _is_stop_word(word: str) -> bool:
    plain = word.lower()
    return plain.replace("'", "").replace("’", "") in STOP_WORDS or (
        plain.isascii() and plain.isalpha() and keyword_form(plain) in stop_lexemes()
    )


def _asian_words(token: str) -> Iterator[tuple[str, float]]:
    japanese = any("\u3041" <= character <= "\u30ff" for character in token)
    for run in _SCRIPT_RUN.findall(token):
        first = run[0]
        if "\uac00" <= first <= "\ud7a3":
            yield from _korean_words(run, after_latin=token[0] != first and not _ASIAN.match(token))
        elif "\u30a1" <= first <= "\u30ff":
            if len(run) > 1:
                yield run, 1.0 + min(len(run), 6) / 6
        elif "\u3041" <= first <= "\u309f":
            continue
        elif _ASIAN.match(first):
            yield from _han(run, japanese=japanese)
        elif (scored := _score_word(run, starts_sentence=False)) is not None:
            yield scored


def _han(run: str, *, japanese: bool) -> Iterator[tuple[str, float]]:
    for part in [run] if japanese else _HAN_FUNCTION.sub(" ", run).split():
        if len(part) <= _LONGEST_HAN and len(part) > 1 and part not in _HAN_FILLER:
            yield part, 0.9 + min(len(part), 4) / 8
        if len(part) > 3:
            for word in _han_words(part):
                yield word, 0.9 + len(word) / 8


def _han_words(part: str) -> Iterator[str]:
    """Words of a script without spaces: known ones of three characters, the rest two by two."""
    start = 0
    for match in [*_HAN_WORDS.finditer(part), None]:
        end = match.start() if match else len(part)
        rest = part[start:end]
        yield from (rest[at : at + 2] for at in range(0, len(rest) - 1, 2))
        if match:
            yield match[0]
            start = match.end()


def _korean_words(run: str, *, after_latin: bool) -> Iterator[tuple[str, float]]:
    """A noun without its particle. A short run after a foreign word ("Redis를") is only a particle."""
    stem = korean_stem(run)
    if stem in _KOREAN_FILLER or run in _KOREAN_FILLER or (after_latin and len(run) < 3):
        return
    if len(stem) < 2:
        return
    if stem == run and _KOREAN_VERB.search(run):
        yield run, 0.3
    else:
        yield stem, (1.0 if stem != run else 0.8) + min(len(stem), 6) / 12


def korean_stem(word: str) -> str:
    """A noun without its particle or verb ending, if at least two syllables remain."""
    for ending in (_KOREAN_NOUN_VERB, _KOREAN_PARTICLE):
        stem = ending.sub("", word)
        if stem != word and len(stem) >= 2:
            return stem
    return word


def is_korean_verb(word: str) -> bool:
    """Whether the word ends like a verb or adjective and isn't derived from a noun."""
    return _KOREAN_VERB.search(word) is not None and korean_stem(word) == word


MOST_TAGS = 20
LONGEST_TAG = 50  # nobody tags with a longer word
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_HASHTAG = re.compile(r"(?<![\w#&/?=.@%:;+-])[#＃](?=[^\W_])")
_COLOUR = re.compile(r"(?=[0-9a-f]*\d)(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})", re.IGNORECASE)


def hashtags(text: str) -> tuple[str, ...]:
    """The hashtags of a text, each once, in order, without the "#"; none from code, addresses, numbers and colours."""
    plain = _CODE.sub(" ", text)
    tags: dict[str, str] = {}
    for sharp in _HASHTAG.finditer(plain):
        tag = _tag_at(plain, sharp.end())
        if len(tag) <= LONGEST_TAG and not tag.isdecimal() and not _COLOUR.fullmatch(tag):
            tags.setdefault(tag.casefold(), tag)
    return tuple(tags.values())[:MOST_TAGS]


def _tag_at(text: str, start: int) -> str:
    end = start
    while end < len(text) and (is_word_character(text[end]) or text[end] in "_-"):
        end += 1
    return text[start:end].rstrip("_-")


def is_word_character(character: str) -> bool:
    """Whether the character is a letter, a digit, or a mark that belongs to the letter before it, as in Hindi."""
    return character.isalnum() or unicodedata.category(character)[0] == "M"

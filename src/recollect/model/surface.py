"""What stands out on the surface of a text, in any language: names, identifiers, rare and long words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from recollect.model.stop_words import is_stop_word

_MOST_CHARACTERS = 20_000  # what a text is about is said early
_LONGEST_KEYWORD = 64

_TOKEN = re.compile(r"""[^\s,;!?()\[\]{}<>"“”„«»‹›。、，！？；：（）「」『』【】《》…|=*`~^$%&]+""")
_EDGES = ".:'’‘-–—/\\·・"
_SENTENCE_END = re.compile(r"[.!?。！？:\n]\s*$")
_IDENTIFIER = re.compile(r"[^\W\d_]+[a-z0-9][A-Z]|\w[_./\\@:-]\w|[^\W\d_]\d|\d[^\W\d_]|[cCfF][+#]")
_POSSESSIVE = re.compile(r"['’](?:s|S)$")
_NUMBER = re.compile(r"[\d.,:/-]+")

_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SCRIPT_RUN = re.compile(
    f"[{_HAN}]+|[\u30a1-\u30fa\u30fc-\u30ff]+|[\u3041-\u309f]+|[\uac00-\ud7a3]+"
    f"|[^{_HAN}\u3041-\u30ff\uac00-\ud7a3]+"
)
_ASIAN = re.compile(f"[{_HAN}\u3041-\u30ff\uac00-\ud7a3]")
_HAN_FUNCTION = re.compile(
    "我们|你们|他们|她们|它们|这个|那个|这些|那些|因为|所以|但是|如果|已经|可以|没有|什么|怎么|决定|使用|需要|进行|以及|或者"
    "|[的了是在和与就也都我你他她它这那有不把被从到对为以而且但会能要让给用很更最及或上下中着过吗呢吧啊将並并於于之所個个来去等地得]"
)
_KOREAN_PARTICLE = re.compile(
    "(?:에서는|에서도|으로는|에게서|이라는|라는|에서|에게|으로|부터|까지|처럼|보다|하고|이나|에는|에도|들은|들이|들을|을|를|이|가|은|는|에|의|도|와|과|로|만)$"
)
_KOREAN_VERB = re.compile("(?:다|요|죠|까|지만|니다|하고|해서|하기|했고|어서|아서|면|며|자|함|음|로)$")
_LONGEST_HAN = 6


def telling_words(text: str) -> Iterator[tuple[str, float]]:
    """Words as they are written, in order, with how telling each looks; repetitions kept."""
    text = text[:_MOST_CHARACTERS]
    starts_sentence = True
    for match in _TOKEN.finditer(text):
        token = _POSSESSIVE.sub("", match.group().strip(_EDGES))
        if _ASIAN.search(token):
            yield from _asian(token)
        elif token and len(token) <= _LONGEST_KEYWORD:
            yield from _spaced(token, starts_sentence=starts_sentence)
        starts_sentence = bool(_SENTENCE_END.search(text[max(0, match.end() - 1) : match.end() + 2]))


def _spaced(token: str, *, starts_sentence: bool) -> Iterator[tuple[str, float]]:
    if is_stop_word(token) and not (token.isupper() and len(token) > 1):
        return
    length = min(len(token), 12) / 12
    if _NUMBER.fullmatch(token):
        if len(token) > 2:
            yield token, 0.2 + length / 2
    elif _IDENTIFIER.search(token):
        yield token, 1.2 + length
    elif token.isupper() and 2 <= len(token) <= 6:
        yield token, 1.1 + length
    elif token[:1].isupper() and len(token) > 2:
        yield token, (0.4 if starts_sentence else 0.9) + length
    elif len(token) > 2:
        yield token, 0.2 + length


def _asian(token: str) -> Iterator[tuple[str, float]]:
    runs = _SCRIPT_RUN.findall(token)
    japanese = any("\u3041" <= character <= "\u30ff" for character in token)
    for run in runs:
        first = run[0]
        if "\uac00" <= first <= "\ud7a3":
            yield from _korean(run)
        elif "\u30a1" <= first <= "\u30ff":
            if len(run) > 1:
                yield run, 1.0 + min(len(run), 6) / 6
        elif "\u3041" <= first <= "\u309f":
            continue
        elif _ASIAN.match(first):
            yield from _han(run, japanese=japanese)
        else:
            yield from _spaced(run.strip(_EDGES), starts_sentence=False)


def _han(run: str, *, japanese: bool) -> Iterator[tuple[str, float]]:
    parts = [run] if japanese else _HAN_FUNCTION.split(run)
    for part in parts:
        places = [*range(0, len(part), 4), len(part)] if len(part) > _LONGEST_HAN else [0, len(part)]
        for start, end in pairwise(places):
            if end - start > 1:
                yield part[start:end], 0.9 + min(end - start, 4) / 8


def _korean(run: str) -> Iterator[tuple[str, float]]:
    stem = _KOREAN_PARTICLE.sub("", run)
    if len(stem) >= 2 and stem != run:
        yield stem, 1.0 + min(len(stem), 6) / 12
    elif len(run) >= 2:
        yield run, 0.3 if _KOREAN_VERB.search(run) else 0.8 + min(len(run), 6) / 12

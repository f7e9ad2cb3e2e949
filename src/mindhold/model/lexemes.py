"""Lexemes, the normalised words that texts are searched by; stop words; and the comparison form of keywords."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise
from string import punctuation

import Stemmer

STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any anybody anyone anything are arent as at be because been
    before being below between both but by can cannot cant could couldnt did didnt do does doesnt doing done dont down
    during each either else ever every few for from further get gets getting give given go goes going gone got had
    hadnt has hasnt have havent having he hed her here hers herself him himself his how hows i id if ill im in into is
    isnt it its itself ive just know let lets like lot made make many maybe me might mine more most much must my
    myself neither no nor not now of off ok okay on once one only or other our ours ourselves out over own please
    quite rather really same say says shall she should shouldnt so some somebody someone something still such tell
    than thank thanks that thats the their theirs them themselves then there theres these they theyre thing things
    this those though through to told too toward under until up upon use used very via was wasnt we went were
    werent what whatever whats when whenever where wherever whether which while who whoever whom whos whose why will
    with within without wont would wouldnt yes yet you youre your yours yourself yourselves
    """.split()
)

# The most common words of other languages, for finding keywords in such texts. Searches don't ignore them:
# "die" and "war" are English as well.
OTHER_STOP_WORDS = {
    "de": """der die das den dem des ein eine einen einem einer eines und oder aber auch nicht kein keine ist sind war waren wird werden
        wurde wurden hat haben hatte kann muss soll sich auf aus bei mit nach von vom zu zum zur für über unter durch gegen ohne im in an am als
        wie wenn dass weil ich du er sie es wir ihr man nur noch schon sehr mehr immer dann hier diese dieser dieses""",
    "fr": """le la les un une des du de et ou mais pas ne est sont était été sera avoir être ont avec sans sur sous dans par pour entre chez
        vers que qui quoi dont où ce cet cette ces son sa ses leur leurs nous vous ils elles il elle on je tu au aux plus très aussi comme quand
        si tout tous toute""",
    "es": """el la los las un una unos unas de del y o pero no es son era fue será ser estar está están con sin sobre en por para entre desde
        hasta que quien cual donde cuando como este esta estos estas ese esa su sus nos se lo le les al más muy también ya todo todos""",
    "it": """il lo la gli le un uno una di del della dei delle dello degli e ed o ma non è sono era erano sarà essere con senza su sul sulla in
        nel nella per tra fra da dal dalla che chi cui dove quando come questo questa questi queste suo sua si ci al alla più molto anche""",
    "pt": """o a os as um uma uns umas de do da dos das e ou mas não é são era foi será ser estar está estão com sem sobre em no na nos nas por
        pelo pela para entre que quem onde quando como este esta esse essa isso seu sua se ao à mais muito também já todo todos""",
    "nl": """de het een en of maar niet geen is zijn was waren wordt worden werd heeft hebben had kan moet zal op in aan bij met na naar van voor
        door over onder uit om tot zonder als dat die dit deze wij wij ik je hij zij ze er ook nog al meer zeer altijd dan hier""",
    "pl": """i oraz lub ale nie jest są był była było były będzie być ma mają z ze na w we do od dla po przez przy pod nad bez o u jak kiedy gdy
        że który która które ten ta to te tego tej się my wy oni on ona jego jej ich już też także bardzo tylko""",
    "ru": """и или но не это этот эта эти был была было были будет быть есть в во на с со к ко от до для по при под над без из за о об у как
        когда что чтобы который которая которые мы вы они он она его её их я ты уже также тоже очень только все всё если""",
    "ar": """في من على إلى عن مع هذا هذه ذلك تلك التي الذي الذين كان كانت يكون لا لم لن ما أن إن أو ثم قد كل بعد قبل عند بين هو هي هم نحن""",
}

# Only clear question words of unspaced text; single characters are parts of other words.
ASIAN_QUESTIONS = re.compile(
    "为什么|為什麼|什么时候|什麼時候|什么|什麼|怎么样|怎麼樣|怎么|怎麼|如何|哪里|哪裡|哪个|哪個|哪些|多少|是否|请问|請問"
    "|どうやって|どうして|どのように|どんな|どこで|どこに|いつ(?=[、にはもか\\s]|$)|なぜ|何ですか|何でしたか|ですか|ましたか|ますか|でしたか"
    "|어떻게|무엇을|무엇이|무엇|언제|어디서|어디에|어디|누가|누구|왜(?=\\s)|어떤|얼마나|뭐였지|뭐야|인가요|있나요|했나요|입니까|습니까"
)

LONGEST_LEXEME = 64
MOST_LEXEMES = 1 << 18  # per text; about what a megabyte of prose has

_MOST_PIECES = 8  # per identifier; a longer one is an encoded blob
_SHORT_RUN = 8
_FIRST_UNSPACED = "\u0e00"  # Latin, Greek, Cyrillic, Arabic and Indic sort before it
_FIRST_OF_PAIR, _SECOND_OF_PAIR = 0xE000, 0xE800

_PAIR = "[\ue000-\ue21f][\ue800-\uefff]"
_CJK_UNIT = (
    "(?:[\u1100-\u11ff\u3005-\u3007\u3021-\u3029\u3031-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]|[\ue040-\ue07f][\ue800-\uefff])"
)
_UNSPACED_UNIT = f"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff](?:{_PAIR})*"  # Thai, Lao, Burmese, Khmer
_LETTER = (
    "[0-9A-Za-z\u00aa-\u0dff\u0f00-\u0fff\u10a0-\u10ff\u1200-\u177f\u1800-\u3004\u3190-\u319f\u31c0-\u31ef"
    "\u4dc0-\u4dff\ua000-\ua95f\ua980-\uabff\ue000-\uefff\ufb00-\uffff\U00010000-\U0001ffff]"
)
_ASCII_CHUNK = re.compile(
    r"[cC]\+\+|[cCfF]\#"
    r"|[0-9A-Za-z]+(?:(?:[-_./\\@'&]|(?<=[0-9]):(?=[0-9])|(?<=[0-9]),(?=[0-9]{3}(?![0-9])))[0-9A-Za-z]+){0,15}"
)
_SYMBOLIC = {"c++": "cplusplus", "c#": "csharp", "f#": "fsharp"}
_CLITIC = re.compile(r"'(?:s|re|ll|ve|d|m)$", re.IGNORECASE)
_NEGATION = re.compile(r"[a-z]+n't$", re.IGNORECASE)
_NUMERIC = re.compile(r"[vV]?[0-9]+(?:[-.:/,][0-9]+)+")
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
_JOINER = re.compile(r"[-_.:,@'&]")
_STEP = re.compile(r"[/\\@]")  # of a path or an address
_BETWEEN = re.compile(r"[^\w\ue000-\uefff]|_")
_NOTHING = dict.fromkeys(map(ord, "-_./\\@'&:,"))
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^A-Za-z0-9]+")
_STEMMABLE = re.compile(r"[a-z]{4,}")

_OPTIONAL_MARKS = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u1ab0-\u1aff"
    "\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe00-\ufe2f\u00ad\u200b-\u200d\u2060\ufeff]|[\U000e0100-\U000e01ef]"
)
_PLAIN = {
    "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
    "ð": "d", "Ð": "D", "þ": "th", "Þ": "TH", "ß": "ss", "ẞ": "SS", "ı": "i", "ħ": "h", "Ħ": "H", "ё": "е",
    "Ё": "е", "’": "'", "‘": "'", "ʼ": "'", "‐": "-", "‑": "-", "−": "-",
}  # fmt: skip

_local = threading.local()


def lexemes(text: str) -> list[str]:
    """The lexemes of a stored text, in order and with repetitions."""
    result: list[str] = []
    for chunk in _chunks(text):
        result += _chunk_lexemes(chunk)
        if len(result) > MOST_LEXEMES:
            return result[:MOST_LEXEMES]
    return result


@cache
def stop_lexemes() -> frozenset[str]:
    """The lexemes of stop words, which distinguish no text."""
    return frozenset(lexeme for word in STOP_WORDS for lexeme in lexemes(word))


def query_lexemes(text: str) -> list[str]:
    """The lexemes to search for, each once, in order; without stop words, unless there is nothing else."""
    if not text.isascii():
        statement = ASIAN_QUESTIONS.sub(" ", unicodedata.normalize("NFKC", text))
        result = _unique(map(_query_chunk_lexemes, _chunks(statement)))
        if result:
            return result
    return _unique(map(_query_chunk_lexemes, _chunks(text))) or _unique(
        map(_all_chunk_lexemes, _chunks(text))
    )


def fold(text: str) -> str:
    """Unify spellings: compatibility forms, diacritics, digits and marks."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_FOLDED)


def _chunks(text: str) -> list[str]:
    return _ASCII_CHUNK.findall(text) if text.isascii() else _any_chunk().findall(fold(text))


@cache
def _any_chunk() -> re.Pattern[str]:
    """Compiled at first use: classes of so many characters take tens of milliseconds."""
    return re.compile(
        r"[cC]\+\+|[cCfF]\#"
        rf"|{_LETTER}+(?:(?:[-_./\\@'&]|(?<=[0-9]):(?=[0-9])|(?<=[0-9]),(?=[0-9]{{3}}(?![0-9]))){_LETTER}+){{0,15}}"
        rf"|(?:{_CJK_UNIT})+|(?:{_UNSPACED_UNIT})+"
    )


@cache
def _unit() -> re.Pattern[str]:
    return re.compile(f"{_CJK_UNIT}|{_UNSPACED_UNIT}")


def _unique(groups: Iterable[tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys(lexeme for group in groups for lexeme in group))[:MOST_LEXEMES]


@lru_cache(4096)
def _is_stop_chunk(chunk: str) -> bool:
    return _CLITIC.sub("", chunk).replace("'", "").lower() in STOP_WORDS


def _chunk_lexemes(chunk: str) -> tuple[str, ...]:
    # Words recur and are cached; long runs and blobs rarely do, and would fill the cache.
    if len(chunk) <= LONGEST_LEXEME and chunk < _FIRST_UNSPACED:
        return _common_word_lexemes(chunk)
    return _short_run_lexemes(chunk) if len(chunk) <= _SHORT_RUN else _run_lexemes(chunk)


@lru_cache(65536)
def _common_word_lexemes(chunk: str) -> tuple[str, ...]:
    return _word_lexemes(chunk)


@lru_cache(8192)
def _short_run_lexemes(chunk: str) -> tuple[str, ...]:
    return _run_lexemes(chunk)


def _run_lexemes(chunk: str) -> tuple[str, ...]:
    units = _units(chunk)
    if not units:
        return _word_lexemes(chunk)
    pairs = [*map("".join, pairwise(units)), ""]
    return tuple([lexeme for both in zip(units, pairs, strict=True) for lexeme in both if lexeme])


def _query_chunk_lexemes(chunk: str) -> tuple[str, ...]:
    if _is_stop_chunk(chunk):
        return ()
    return tuple(lexeme for lexeme in _all_chunk_lexemes(chunk) if lexeme not in STOP_WORDS)


def _all_chunk_lexemes(chunk: str) -> tuple[str, ...]:
    units = _units(chunk)
    if len(units) > 1:
        return tuple(map("".join, pairwise(units)))
    return tuple(units) or _chunk_lexemes(chunk)


def _units(chunk: str) -> list[str]:
    """The characters of a run of Chinese, Japanese, Korean, Thai and so on; empty for other words."""
    return _unit().findall(chunk) if chunk >= _FIRST_UNSPACED and _unit().match(chunk) else []


def _word_lexemes(chunk: str) -> tuple[str, ...]:
    if chunk.isalpha() and chunk.islower():
        return (_stem(chunk[:LONGEST_LEXEME]),)
    if symbolic := _SYMBOLIC.get(chunk.lower()):
        return (symbolic,)
    if chunk[-1].isdecimal() and _NUMERIC.fullmatch(chunk):
        return _number_lexemes(chunk.lstrip("vV"))
    result: list[str] = []
    segments = _STEP.split(chunk) if not chunk.isalnum() else [chunk]
    for segment in segments:
        result += _segment_lexemes(segment)
    if len(segments) > 1:
        result += _joined_lexeme(chunk.translate(_NOTHING) if chunk.isascii() else _BETWEEN.sub("", chunk))
    return tuple(dict.fromkeys(result))


def _number_lexemes(number: str) -> tuple[str, ...]:
    if _THOUSANDS.fullmatch(number):
        return (number.replace(",", ""),)
    result: list[str] = []
    for group in (number, *re.split(r"[:/,]", number)):  # an address, then its host and its port
        parts = re.split(r"[-.:/,]", group)
        # Joined by a letter, because 3.11 is neither 311 nor 31.1.
        result += [*_joined_lexeme("d".join(parts)), *(part[:LONGEST_LEXEME] for part in parts)]
    return tuple(dict.fromkeys(result))


@lru_cache(65536)  # folders recur even if whole paths don't
def _segment_lexemes(segment: str) -> tuple[str, ...]:
    if segment.isalpha() and segment.islower() and segment.isascii() and len(segment) <= LONGEST_LEXEME:
        return (_stem(segment),)
    if "'" in segment:
        segment = _CLITIC.sub("", segment)
        if _NEGATION.fullmatch(segment):
            return (segment.replace("'", "").lower(),)
    words = [word for word in _JOINER.split(segment) if word]
    pieces = [piece for word in words for piece in _pieces(word)]
    pieces = [piece for piece in pieces if len(piece) > 1 or not piece.isalpha()] or pieces
    if len(words) == 1 and len(words[0]) > LONGEST_LEXEME:
        return (words[0][:LONGEST_LEXEME].lower(),)
    whole = _joined_lexeme("".join(words))
    return tuple(dict.fromkeys([*whole, *(_stem(piece[:LONGEST_LEXEME].lower()) for piece in pieces)]))


def _pieces(word: str) -> list[str]:
    """getUserName: get, User, Name. python3: python, 3. A word that alternates like a hash stays whole."""
    pieces: list[str] = _CAMEL.findall(word)
    if len(pieces) == 1:
        return pieces
    digits = sum(piece.isdigit() for piece in pieces)
    short = sum(len(piece) == 1 and piece.isalpha() for piece in pieces)
    blob = len(pieces) > _MOST_PIECES or digits > 1 or (digits and short) or short * 2 > len(pieces)
    return [word] if blob or len(word) > LONGEST_LEXEME or not word.isascii() else pieces


def _joined_lexeme(word: str) -> list[str]:
    return [_stem(word.lower())] if len(word) <= LONGEST_LEXEME else []


def _stem(word: str) -> str:
    if not _STEMMABLE.fullmatch(word):
        return word
    try:
        stemmer = _local.stemmer
    except AttributeError:
        # One per thread: a stemmer has state. Its own cache is off because we have one.
        stemmer = _local.stemmer = Stemmer.Stemmer("english", 0)
    stem: str = stemmer.stemWord(word)
    return stem


class _Folded(dict[int, str]):
    """The folded form of each character, computed when first used."""

    def __missing__(self, point: int) -> str:
        folded = self[point] = _fold_character(chr(point))
        return folded


def _fold_character(character: str) -> str:
    if character.isascii():
        return character
    if character in _PLAIN:
        return _PLAIN[character]
    if _OPTIONAL_MARKS.match(character):
        return ""
    if unicodedata.category(character) == "Nd":
        return str(unicodedata.decimal(character))
    base = unicodedata.normalize("NFD", character)[0]
    if unicodedata.name(character, "").startswith(("LATIN", "GREEK")):
        character = _PLAIN.get(base, base)
    if character.isascii():
        return character
    return "".join(map(_indexable, unicodedata.normalize("NFKC", character.casefold())))


def _indexable(character: str) -> str:
    if character.isascii() or unicodedata.ucd_3_2_0.category(character)[0] in "LN":
        return character if character.isalnum() else " "
    if unicodedata.category(character)[0] in "LMN":
        point = ord(character)
        return chr(_FIRST_OF_PAIR + (point >> 11)) + chr(_SECOND_OF_PAIR + (point & 0x7FF))
    return " "


_FOLDED = _Folded()


def keyword_form(keyword: str) -> str:
    """The comparison form of a keyword: case, accents and endings make no difference."""
    return " ".join(lexemes(keyword)) or keyword.casefold().strip()


def keyword_forms(keywords: Iterable[str]) -> tuple[str, ...]:
    """The forms of the keywords, each once, in order, without empty ones."""
    return tuple(dict.fromkeys(form for form in map(keyword_form, keywords) if form))


MOST_WORDS, LONGEST_WORD = 50_000, 40  # limits of the cache
_AROUND = "".join(sorted(set(punctuation) - set("+#")))  # punctuation around a word


class LexemeCache(dict[str, str]):
    """A cache of the lexemes of each word. No lexeme spans a space, so a text's lexemes are those of its words."""

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[str, str] = {}  # the previous generation; recurring words are carried over

    def __missing__(self, word: str) -> str:
        result = self._before.get(word)
        if result is None:
            bare = word.strip(_AROUND) if word.isascii() else word
            result = self[bare] if bare != word else " ".join(lexemes(word))
        if len(word) <= LONGEST_WORD:
            if len(self) >= MOST_WORDS:
                self._before = dict(self)
                self.clear()
            self[word] = result
        return result

    def of(self, text: str) -> str:
        """The text's lexemes in order, separated by spaces."""
        return " ".join(filter(None, map(self.__getitem__, text.split())))

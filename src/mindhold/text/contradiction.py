"""Decides by rules whether two texts contradict each other. Precision comes before recall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mindhold.model.lexemes import lexemes
from mindhold.text.pattern import LazyPattern
from mindhold.text.resolution import resolves
from mindhold.text.similarity import replaces, same_statement
from mindhold.text.statement import (
    MONTHS,
    Amounts,
    ParsedStatement,
    StatementChange,
    Word,
    changes_between,
    compared,
    is_one_frame,
    may_be_one_day,
    statement,
)
from mindhold.text.vocabulary import (
    ADJUNCT_STARTS,
    ATTRIBUTES,
    FUNCTION_WORDS,
    OPPOSITE_VERBS,
    SINGLE_VALUED,
    are_directions,
    opposite,
)

MOST_SENTENCES = 4
LONGEST = 45  # words of a sentence; longer ones say more than one thing


class Bearing(StrEnum):
    """How one statement bears on another."""

    SAME = "same"
    OPPOSED = "opposed"
    DOUBTFUL = "doubtful"
    APART = "apart"  # of different things, times or circumstances
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OppositionFinding:
    """What was found, how sure the rule is of it, and why."""

    bearing: Bearing
    confidence: float
    why: str


UNKNOWN = OppositionFinding(Bearing.UNKNOWN, 0.0, "")
SAME_WORDS = OppositionFinding(Bearing.SAME, 0.85, "they use the same words")
_SENTENCE = LazyPattern(r"(?<=[.!?])[\"'”’)\]]*\s+(?=\S)|(?<=[。！？])|\n+|;\s+")
_HANGUL = LazyPattern("[가-힣]")
_PRONOUNS = frozenset("it they this that these those he she its their his her".split())
_PERSONS = frozenset("i we my our you your".split())
# A number after one of these says which one it is, not how much.
_NUMBERED = frozenset(
    """ticket issu step chapter phase item task pr bug section page line question room part episod sprint commit build id case
    season figur tabl day week round stage level row column slide lesson exercis station gate platform team group player""".split()
)
# What is used, supported or known may be several things at once.
_MANY = frozenset(
    """support includ contain provid offer test accept know like love enjoy speak need handl list mention cover see have add
    log call send read writ store return""".split()
)
_SINGLE = frozenset(lexeme for word in SINGLE_VALUED for lexeme in lexemes(word)) | SINGLE_VALUED | {"due"}
_KEPT = frozenset("stored kept saved written implemented built released scheduled born".split())  # after "is"
_TOGETHER = frozenset({"80", "443"})  # ports that one server has both of
# Papers of which there are many: two sums are two of them.
_PAPERS = frozenset("invoic order receipt purchas transact payment bill".split())
_SUMS = frozenset("total amount sum price cost".split())
_EXCHANGES = frozenset(
    "instead rather switch replac chang migrat except unless 대신 전환하 변경하 교체하".split()
)
_NEEDED = frozenset("requir need".split())
SentenceJudge = Callable[[str, str], OppositionFinding]


def bearing(old: str, new: str) -> OppositionFinding:
    """Of two texts, the later one second."""
    if old == new:
        return OppositionFinding(Bearing.SAME, 0.95, "they say the same")
    if replaces(new, old):
        return OppositionFinding(Bearing.OPPOSED, 0.95, "the later one says that it has changed")
    if _HANGUL.search(old) or _HANGUL.search(new):
        from mindhold.text.korean_contradiction import bearing_korean  # for those who need it

        found = _by_sentence(old, new, bearing_korean)
    else:
        found = _by_sentence(old, new, _of_sentences)
    if found.bearing in (Bearing.UNKNOWN, Bearing.DOUBTFUL) and resolves(new, old):
        return OppositionFinding(Bearing.APART, 0.8, "the later one says how it was resolved")
    return found


def _by_sentence(old: str, new: str, judge: SentenceJudge) -> OppositionFinding:
    """The strongest finding between a sentence of the one and a sentence of the other."""
    before, after = sentences(old), sentences(new)
    if len(before) == len(after) == 1:
        return judge(before[0], after[0])
    if len(before) > MOST_SENTENCES or len(after) > MOST_SENTENCES:
        return UNKNOWN
    if same_statement(old, new):
        return OppositionFinding(Bearing.SAME, 0.95, "they say the same")
    found = [[judge(one, two) for two in after] for one in before]
    opposed = [
        (each.confidence, row, column)
        for row, own in enumerate(found)
        for column, each in enumerate(own)
        if each.bearing is Bearing.OPPOSED
    ]
    if opposed:
        _, row, column = max(opposed)
        return _of_opposed(before, after, found, row=row, column=column)
    doubtful = [each for own in found for each in own if each.bearing is Bearing.DOUBTFUL]
    if doubtful:
        return doubtful[0]
    return found[0][0] if found[0][0].bearing is Bearing.APART else UNKNOWN


def _of_opposed(
    before: Sequence[str],
    after: Sequence[str],
    found: Sequence[Sequence[OppositionFinding]],
    *,
    row: int,
    column: int,
) -> OppositionFinding:
    """Sure only if all the rest is said by both: another sentence may name what this one is about."""
    best = found[row][column]
    rows = [place for place in range(len(before)) if place != row]
    columns = [place for place in range(len(after)) if place != column]

    def alike(one: int, two: int) -> bool:
        return before[one] == after[two] or found[one][two].bearing is Bearing.SAME

    shared = all(any(alike(one, two) for two in columns) for one in rows) and all(
        any(alike(one, two) for one in rows) for two in columns
    )
    # "It" of the second sentence may be anything.
    vague = any(_begins_vaguely(sentence) for sentence in (*before[1:], *after[1:]))
    if shared and not vague:
        return best
    if any(found[one][two].bearing is Bearing.APART for one, two in zip(rows, columns, strict=False)):
        return OppositionFinding(Bearing.APART, 0.8, "another sentence is about different things")
    return OppositionFinding(Bearing.DOUBTFUL, 0.6, best.why)


def sentences(text: str) -> list[str]:
    """Without the blank ones."""
    return [" ".join(part.split()) for part in _SENTENCE.sub("\0", text).split("\0") if part.strip()] or [
        text
    ]


def _begins_vaguely(sentence: str) -> bool:
    return sentence.split(maxsplit=1)[0].lower().strip(",'") in _PRONOUNS


def _of_sentences(old: str, new: str) -> OppositionFinding:
    before, after = statement(old), statement(new)
    if not before.words or not after.words or max(len(before.words), len(after.words)) > LONGEST:
        return UNKNOWN
    if before.past != after.past and not after.ended and not before.ended:
        return OppositionFinding(Bearing.APART, 0.85, "one is about the past")
    if before.future != after.future:
        return UNKNOWN
    changes = changes_between(before, after)
    found = _compared(before, after, changes)
    if found.bearing is Bearing.APART and not is_one_frame(before, after, changes):
        return UNKNOWN
    return found


def _compared(
    before: ParsedStatement, after: ParsedStatement, changes: Sequence[StatementChange]
) -> OppositionFinding:
    if before.negations != after.negations:
        return _of_negation(before, after, changes)
    return _of_values(before, after, changes)


def _of_negation(
    old: ParsedStatement, new: ParsedStatement, changes: Sequence[StatementChange]
) -> OppositionFinding:
    if abs(old.negations - new.negations) != 1 or min(old.negations, new.negations) > 0:
        return UNKNOWN
    if not changes:
        if old.hedged or new.hedged:
            return OppositionFinding(Bearing.DOUBTFUL, 0.6, "one denies what the other says of some")
        return OppositionFinding(Bearing.OPPOSED, 0.95, "one denies what the other says")
    said, denied = (old, new) if new.negations else (new, old)
    more = {word.key for word in said.words} - {word.key for word in denied.words}
    if len(said.words) > len(denied.words) and not any(change.both for change in changes) and len(more) <= 3:
        return OppositionFinding(Bearing.DOUBTFUL, 0.6, "one denies what the other says, and says more of")
    if any(change.both and not change.told for change in changes):
        return OppositionFinding(Bearing.APART, 0.8, "they are about different things")
    return UNKNOWN


def _of_values(
    old: ParsedStatement, new: ParsedStatement, changes: Sequence[StatementChange]
) -> OppositionFinding:
    if not changes:
        return SAME_WORDS
    if not all(change.both for change in changes):
        if not any(change.both for change in changes):
            return saying_more(changes)
        if any(change.both and _is_elsewhere(change) for change in changes):
            return OppositionFinding(Bearing.APART, 0.85, "they are about different things")
        return UNKNOWN
    if any(_is_elsewhere(change) for change in changes):
        return OppositionFinding(Bearing.APART, 0.9, "they are about different things")
    if len(changes) > 1:
        doubt = all(change.kinds == {"number"} for change in changes) and not _happened(old, new)
        return OppositionFinding(Bearing.DOUBTFUL, 0.5, "several numbers differ") if doubt else UNKNOWN
    return _of_value(old, new, changes[0])


def saying_more(changes: Sequence[StatementChange]) -> OppositionFinding:
    """Of a statement and its elaboration; "instead of" is none."""
    if any(word.key in _EXCHANGES for change in changes for word in change.words):
        return OppositionFinding(Bearing.DOUBTFUL, 0.6, "one says that it has changed")
    return OppositionFinding(Bearing.APART, 0.8, "one says more than the other")


def _is_elsewhere(change: StatementChange) -> bool:
    """In the subject, or in the circumstances: "in staging", "for caching"."""
    if not change.told:
        return not (change.before and (_are_opposite_verbs(change) or _is_needed(change)))
    if _is_valued(change):
        return False
    return change.preceding() in ADJUNCT_STARTS and change.kinds <= {"name", "words", "path"}


def _are_opposite_verbs(change: StatementChange) -> bool:
    """ "likes" against "dislikes"."""
    if len(change.taken) != 1 or len(change.put) != 1:
        return False
    one, two = change.taken[0].key, change.put[0].key
    return one in OPPOSITE_VERBS and two in OPPOSITE_VERBS and opposite(one, two)


def _is_needed(change: StatementChange) -> bool:
    """ "Python 3.11 is required": said of the version, though it stands before the verb. Port 80 and port 81 are two things."""
    needed = bool(change.after) and change.after[0].told and change.after[0].key in _NEEDED
    return needed and change.kinds == {"number"} and change.before[-1].raw.lower() not in ATTRIBUTES


def _is_valued(change: StatementChange) -> bool:
    """ "hosted in X", "listens on port X", "the owner is X": of these there is one at a time."""
    led_by = change.preceding() in ("to", "on", "at", "in", "by", "with")
    if change.before and change.before[-1].raw.lower() in ATTRIBUTES:
        return True
    if (
        led_by
        and len(change.before) > 1
        and change.before[-2].raw.lower() in _KEPT
        and change.before[-2].told
    ):
        return True
    single = change.preceding(2) in _SINGLE and not _runs_on(change)
    return led_by and single and change.kinds <= {"name", "path", "date", "number"}


def _runs_on(change: StatementChange) -> bool:
    """ "Tests run on Python 3.11": and perhaps on others; on one port, though."""
    places = [word.key for word in change.before]
    on = any(pair == ("run", "on") for pair in zip(places, places[1:], strict=False))
    return on and change.before[-1].raw.lower() not in ATTRIBUTES


def _of_value(old: ParsedStatement, new: ParsedStatement, change: StatementChange) -> OppositionFinding:
    if not _has_subject(change) or old.hedged or new.hedged or len(change.taken) > 3 or len(change.put) > 3:
        return UNKNOWN
    values = f"{_text(change.taken)} against {_text(change.put)}"
    if len(change.taken) == len(change.put) == 1 and opposite(change.taken[0].key, change.put[0].key):
        return _of_opposites(old, new, change)
    if _happened(old, new):
        return OppositionFinding(Bearing.APART, 0.8, "each happened once")
    dated = _is_date(change)
    if dated and change.preceding() in MONTHS:  # "due on May 5": what stands before the date
        change = replace(change, before=change.before[:-1])
    single = _is_attribute(old, new, change) or _is_valued(change)
    if dated:
        if change.kinds != {"number"} and may_be_one_day(*change.keys):
            return UNKNOWN
        return (
            OppositionFinding(Bearing.OPPOSED, 0.85, values)
            if single
            else OppositionFinding(Bearing.DOUBTFUL, 0.5, values)
        )
    units = of_units(change)
    if units is not None:
        return units
    if change.kinds == {"number"}:
        return _of_number(old, new, change)
    if single and old.definite and new.definite and len(change.taken) <= 2 and len(change.put) <= 2:
        return OppositionFinding(Bearing.OPPOSED, 0.85, values)
    if change.kinds <= {"name", "path"} and change.preceding() in ("use", "prefer", "choos"):
        return OppositionFinding(Bearing.DOUBTFUL, 0.5, values)
    return UNKNOWN


def _is_date(change: StatementChange) -> bool:
    """ "5 March", or the 5 of it."""
    if change.kinds == {"number"}:
        return change.preceding() in MONTHS or bool(change.after and change.after[0].key in MONTHS)
    dated = all(any(word.kind == "date" for word in words) for words in (change.taken, change.put))
    return dated and change.kinds <= {"date", "number"}


def _of_opposites(old: ParsedStatement, new: ParsedStatement, change: StatementChange) -> OppositionFinding:
    one, two = change.taken[0], change.put[0]
    values = f"{one.raw} against {two.raw}"
    if are_directions(one.key, two.key) and change.after and not (old.linked and _is_switched(change)):
        return UNKNOWN
    if not (old.definite and new.definite) or change.preceding() in ADJUNCT_STARTS:
        return OppositionFinding(Bearing.DOUBTFUL, 0.5, values)
    return OppositionFinding(Bearing.OPPOSED, 0.9, values)


def _is_switched(change: StatementChange) -> bool:
    """ "is on by default", "is turned off in staging"; not "is on the table"."""
    if {word.key for word in change.words} != {"on", "off"}:
        return False
    after = [word.key for word in change.after]
    told = {word.key for word in change.before if word.told}
    return told <= {"turn", "switch"} and (after[0] in ADJUNCT_STARTS or after == ["by", "default"])


def _of_number(old: ParsedStatement, new: ParsedStatement, change: StatementChange) -> OppositionFinding:
    values = f"{_text(change.taken)} against {_text(change.put)}"
    if change.preceding() in _NUMBERED and change.before[-1].told == change.taken[0].told:
        return OppositionFinding(Bearing.APART, 0.85, "they are about different things")
    if {word.key for word in change.words} <= _TOGETHER:
        return UNKNOWN
    if old.limited or new.limited:
        return OppositionFinding(Bearing.DOUBTFUL, 0.5, values)
    if _is_of_papers(change):
        return UNKNOWN
    if _runs_on(change) or not change.told:
        return OppositionFinding(Bearing.DOUBTFUL, 0.5, values)
    if (old.verbs | new.verbs) & _MANY and not _is_valued(change) and not _counts(change):
        return UNKNOWN
    return OppositionFinding(Bearing.OPPOSED, 0.9, values)


def of_units(change: StatementChange) -> OppositionFinding | None:
    """What there is to say of amounts in different units; None where the values may be compared as they are."""
    match compared(*change.keys, bare=change.kinds == {"number"}):
        case Amounts.EQUAL:
            return OppositionFinding(Bearing.SAME, 0.85, "the same amount in other units")
        case Amounts.UNCLEAR:
            return UNKNOWN
        case Amounts.COMPARABLE:
            return None


def _is_of_papers(change: StatementChange) -> bool:
    """ "The invoice is for 300 dollars"."""
    subject = {word.key for word in change.before if not word.told} - FUNCTION_WORDS
    return bool(subject & _PAPERS) and subject <= _PAPERS | _SUMS


def _counts(change: StatementChange) -> bool:
    """ "has 3 engineers": the number of something."""
    return (
        bool(change.after) and change.after[0].kind == "words" and change.after[0].key not in FUNCTION_WORDS
    )


def _is_attribute(old: ParsedStatement, new: ParsedStatement, change: StatementChange) -> bool:
    """ "The default branch is main": the subject names what a thing has one of."""
    if not (old.linked and new.linked) or any(word.told for word in change.before):
        return False
    heads = [
        place
        for place, word in enumerate(change.before)
        if word.raw.lower().removesuffix("'s") in ATTRIBUTES
        or (word.key == "date" and len(change.before) > 1)  # the release date, not the date
    ]
    return any(
        place == len(change.before) - 1 or change.before[place + 1].key in ("of", "for", "in", "on")
        for place in heads
    )


def _has_subject(change: StatementChange) -> bool:
    subject = [word for word in change.before if not word.told]
    if not subject or subject[0].key in _PRONOUNS:
        return False
    return any(word.key in _PERSONS or word.key not in FUNCTION_WORDS for word in subject)


def _happened(old: ParsedStatement, new: ParsedStatement) -> bool:
    return old.event or new.event


def _text(words: Sequence[Word]) -> str:
    return " ".join(word.raw for word in words)

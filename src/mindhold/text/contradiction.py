"""Decides by rules whether two texts contradict each other. Prefers precision to recall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain

from mindhold.model.lexemes import lexemes
from mindhold.text.failure_resolution import resolves
from mindhold.text.pattern import LazyPattern
from mindhold.text.similarity import replaces, same_statement
from mindhold.text.statement import (
    MONTHS,
    AmountRelation,
    ParsedStatement,
    StatementChange,
    changes_between,
    compare_amounts,
    may_be_same_day,
    parse_statement,
    share_most_words,
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
LONGEST = 45  # words; a longer sentence makes more than one statement


class StatementRelation(StrEnum):
    """How a newer statement relates to an older one."""

    SAME = "same"
    OPPOSED = "opposed"
    DOUBTFUL = "doubtful"
    APART = "apart"  # about different things, times or circumstances
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The relation between two statements, how sure the rule is of it, and why."""

    relation: StatementRelation
    confidence: float
    why: str


same = partial(Comparison, StatementRelation.SAME)
opposed = partial(Comparison, StatementRelation.OPPOSED)
doubtful = partial(Comparison, StatementRelation.DOUBTFUL)
apart = partial(Comparison, StatementRelation.APART)
UNKNOWN = Comparison(StatementRelation.UNKNOWN, 0.0, "")
SAME_WORDS = same(0.85, "they use the same words")
_SENTENCE = LazyPattern(r"(?<=[.!?])[\"'”’)\]]*\s+(?=\S)|(?<=[。！？])|\n+|;\s+")
_HANGUL = LazyPattern("[가-힣]")
_PRONOUNS = frozenset("it they this that these those he she its their his her".split())
_PERSONS = frozenset("i we my our you your".split())
# A number after one of these identifies a thing; it isn't an amount.
_NUMBERED = frozenset(
    """ticket issu step chapter phase item task pr bug section page line question room part episod sprint commit build id case
    season figur tabl day week round stage level row column slide lesson exercis station gate platform team group player""".split()
)
# Verbs that can have several objects at once.
_MULTI_VALUED = frozenset(
    """support includ contain provid offer test accept know like love enjoy speak need handl list mention cover see have add
    log call send read writ store return""".split()
)
_SINGLE = frozenset(lexeme for word in SINGLE_VALUED for lexeme in lexemes(word)) | SINGLE_VALUED | {"due"}
# after "is"
_STATE_PARTICIPLES = frozenset("stored kept saved written implemented built released scheduled born".split())
_SHARED_PORTS = frozenset({"80", "443"})  # ports that one server uses both of
# Documents that exist many times: two sums belong to two of them.
_DOCUMENTS = frozenset("invoic order receipt purchas transact payment bill".split())
_SUMS = frozenset("total amount sum price cost".split())
_EXCHANGES = frozenset(
    "instead rather switch replac chang migrat except unless 대신 전환하 변경하 교체하".split()
)
_NEED_VERBS = frozenset("requir need".split())
SentenceJudge = Callable[[str, str], Comparison]
ChangesJudge = Callable[[ParsedStatement, ParsedStatement, Sequence[StatementChange]], Comparison]


def compare_statements(old: str, new: str) -> Comparison:
    """Compare two texts, of which `new` is the later one."""
    if old == new:
        return same(0.95, "they say the same")
    if replaces(new, old):
        return opposed(0.95, "the later one says that it has changed")
    if _HANGUL.search(old) or _HANGUL.search(new):
        from mindhold.text.korean_contradiction import compare_korean_sentences  # loaded only for Korean

        comparison = _compare_by_sentence(old, new, compare_korean_sentences)
    else:
        comparison = _compare_by_sentence(old, new, _compare_sentences)
    if comparison.relation in (StatementRelation.UNKNOWN, StatementRelation.DOUBTFUL) and resolves(new, old):
        return apart(0.8, "the later one says how it was resolved")
    return comparison


def _compare_by_sentence(old: str, new: str, judge: SentenceJudge) -> Comparison:
    """The strongest result of comparing each sentence of the old text with each of the new one."""
    before, after = split_sentences(old), split_sentences(new)
    if len(before) == len(after) == 1:
        return judge(before[0], after[0])
    if len(before) > MOST_SENTENCES or len(after) > MOST_SENTENCES:
        return UNKNOWN
    if same_statement(old, new):
        return same(0.95, "they say the same")
    table = [[judge(left, right) for right in after] for left in before]
    opposed_cells = [
        (cell.confidence, row, column)
        for row, cells in enumerate(table)
        for column, cell in enumerate(cells)
        if cell.relation is StatementRelation.OPPOSED
    ]
    if opposed_cells:
        _, row, column = max(opposed_cells)
        return _judge_opposed_pair(before, after, table, row=row, column=column)
    for cell in chain.from_iterable(table):
        if cell.relation is StatementRelation.DOUBTFUL:
            return cell
    return table[0][0] if table[0][0].relation is StatementRelation.APART else UNKNOWN


def _judge_opposed_pair(
    before: Sequence[str],
    after: Sequence[str],
    table: Sequence[Sequence[Comparison]],
    *,
    row: int,
    column: int,
) -> Comparison:
    """The pair counts fully only if both texts share all other sentences, which may name its subject."""
    best = table[row][column]
    rows = [index for index in range(len(before)) if index != row]
    columns = [index for index in range(len(after)) if index != column]

    def alike(left: int, right: int) -> bool:
        return before[left] == after[right] or table[left][right].relation is StatementRelation.SAME

    shared = all(any(alike(left, right) for right in columns) for left in rows) and all(
        any(alike(left, right) for left in rows) for right in columns
    )
    # "It" in the second sentence may mean anything.
    vague = any(_begins_vaguely(sentence) for sentence in (*before[1:], *after[1:]))
    if shared and not vague:
        return best
    if any(
        table[left][right].relation is StatementRelation.APART
        for left, right in zip(rows, columns, strict=False)
    ):
        return apart(0.8, "another sentence is about different things")
    return doubtful(0.6, best.why)


def split_sentences(text: str) -> list[str]:
    """Split text into its non-blank sentences; the whole text if there are none."""
    return [" ".join(part.split()) for part in _SENTENCE.sub("\0", text).split("\0") if part.strip()] or [
        text
    ]


def _begins_vaguely(sentence: str) -> bool:
    return sentence.split(maxsplit=1)[0].lower().strip(",'") in _PRONOUNS


def _compare_sentences(old: str, new: str) -> Comparison:
    before, after = parse_statement(old), parse_statement(new)
    if not before.words or not after.words or max(len(before.words), len(after.words)) > LONGEST:
        return UNKNOWN
    return compare_parsed(before, after, values=_compare_values, negations=_compare_negations)


def compare_parsed(
    before: ParsedStatement, after: ParsedStatement, *, values: ChangesJudge, negations: ChangesJudge
) -> Comparison:
    """Compare two parsed sentences of one language, by its rules for different values and for negations."""
    if before.past != after.past and not after.ended and not before.ended:
        return apart(0.85, "one is about the past")
    if before.future != after.future:
        return UNKNOWN
    changes = changes_between(before, after)
    compare = values if before.negations == after.negations else negations
    comparison = compare(before, after, changes)
    if comparison.relation is StatementRelation.APART and not share_most_words(before, after, changes):
        return UNKNOWN
    return comparison


def _compare_negations(
    old: ParsedStatement, new: ParsedStatement, changes: Sequence[StatementChange]
) -> Comparison:
    if abs(old.negations - new.negations) != 1 or min(old.negations, new.negations) > 0:
        return UNKNOWN
    if not changes:
        if old.hedged or new.hedged:
            return doubtful(0.6, "one denies what the other says of some")
        return opposed(0.95, "one denies what the other says")
    affirmed, denied = (old, new) if new.negations else (new, old)
    extra = {word.key for word in affirmed.words} - {word.key for word in denied.words}
    if (
        len(affirmed.words) > len(denied.words)
        and not any(change.both for change in changes)
        and len(extra) <= 3
    ):
        return doubtful(0.6, "one denies what the other says, and says more of")
    if any(change.both and not change.in_predicate for change in changes):
        return apart(0.8, "they are about different things")
    return UNKNOWN


def _compare_values(
    old: ParsedStatement, new: ParsedStatement, changes: Sequence[StatementChange]
) -> Comparison:
    if not changes:
        return SAME_WORDS
    if not all(change.both for change in changes):
        if not any(change.both for change in changes):
            return judge_addition(changes)
        if any(change.both and _changes_subject(change) for change in changes):
            return apart(0.85, "they are about different things")
        return UNKNOWN
    if any(_changes_subject(change) for change in changes):
        return apart(0.9, "they are about different things")
    if len(changes) > 1:
        doubt = all(change.kinds == {"number"} for change in changes) and not (old.event or new.event)
        return doubtful(0.5, "several numbers differ") if doubt else UNKNOWN
    return _compare_value(old, new, changes[0])


def judge_addition(changes: Sequence[StatementChange]) -> Comparison:
    """Judge a statement against a longer version of itself; "instead of" makes it a possible change."""
    if any(word.key in _EXCHANGES for change in changes for word in change.words):
        return doubtful(0.6, "one says that it has changed")
    return apart(0.8, "one says more than the other")


def _changes_subject(change: StatementChange) -> bool:
    """Whether the subject or the circumstances differ: "in staging", "for caching"."""
    if not change.in_predicate:
        return not (change.before and (_are_opposite_verbs(change) or _is_required_version(change)))
    if _is_single_valued(change):
        return False
    return change.preceding() in ADJUNCT_STARTS and change.kinds <= {"name", "words", "path"}


def _are_opposite_verbs(change: StatementChange) -> bool:
    """Whether the verbs are opposites: "likes" against "dislikes"."""
    if len(change.removed) != 1 or len(change.added) != 1:
        return False
    left, right = change.removed[0].key, change.added[0].key
    return left in OPPOSITE_VERBS and right in OPPOSITE_VERBS and opposite(left, right)


def _is_required_version(change: StatementChange) -> bool:
    """Whether a required version differs, as in "Python 3.11 is required"; port 80 and port 81 are two things."""
    needed = bool(change.after) and change.after[0].in_predicate and change.after[0].key in _NEED_VERBS
    return needed and change.kinds == {"number"} and change.before[-1].raw.lower() not in ATTRIBUTES


def _is_single_valued(change: StatementChange) -> bool:
    """Whether there is one value at a time: "hosted in X", "listens on port X", "the owner is X"."""
    led_by = change.preceding() in ("to", "on", "at", "in", "by", "with")
    if change.before and change.before[-1].raw.lower() in ATTRIBUTES:
        return True
    if (
        led_by
        and len(change.before) > 1
        and change.before[-2].raw.lower() in _STATE_PARTICIPLES
        and change.before[-2].in_predicate
    ):
        return True
    single = change.preceding(2) in _SINGLE and not _runs_on(change)
    return led_by and single and change.kinds <= {"name", "path", "date", "number"}


def _runs_on(change: StatementChange) -> bool:
    """Whether the value is one of perhaps several platforms: "tests run on Python 3.11". A port isn't."""
    keys = [word.key for word in change.before]
    on = any(pair == ("run", "on") for pair in zip(keys, keys[1:], strict=False))
    return on and change.before[-1].raw.lower() not in ATTRIBUTES


def _compare_value(old: ParsedStatement, new: ParsedStatement, change: StatementChange) -> Comparison:
    if (
        not _has_subject(change)
        or old.hedged
        or new.hedged
        or len(change.removed) > 3
        or len(change.added) > 3
    ):
        return UNKNOWN
    values = change.values
    if len(change.removed) == len(change.added) == 1 and opposite(change.removed[0].key, change.added[0].key):
        return _compare_opposites(old, new, change)
    if old.event or new.event:
        return apart(0.8, "each happened once")
    dated = _is_date(change)
    if dated and change.preceding() in MONTHS:  # "due on May 5": look at what precedes the date
        change = replace(change, before=change.before[:-1])
    single = _is_attribute(old, new, change) or _is_single_valued(change)
    if dated:
        if change.kinds != {"number"} and may_be_same_day(*change.keys):
            return UNKNOWN
        return opposed(0.85, values) if single else doubtful(0.5, values)
    units = compare_units(change)
    if units is not None:
        return units
    if change.kinds == {"number"}:
        return _compare_numbers(old, new, change)
    if single and old.definite and new.definite and len(change.removed) <= 2 and len(change.added) <= 2:
        return opposed(0.85, values)
    if change.kinds <= {"name", "path"} and change.preceding() in ("use", "prefer", "choos"):
        return doubtful(0.5, values)
    return UNKNOWN


def _is_date(change: StatementChange) -> bool:
    """Whether a date differs, or a part of one: "5 March", or its 5."""
    if change.kinds == {"number"}:
        return change.preceding() in MONTHS or bool(change.after and change.after[0].key in MONTHS)
    dated = all(any(word.kind == "date" for word in words) for words in (change.removed, change.added))
    return dated and change.kinds <= {"date", "number"}


def _compare_opposites(old: ParsedStatement, new: ParsedStatement, change: StatementChange) -> Comparison:
    left, right = change.removed[0], change.added[0]
    values = change.values
    if are_directions(left.key, right.key) and change.after and not (old.linked and _is_switched(change)):
        return UNKNOWN
    if not (old.definite and new.definite) or change.preceding() in ADJUNCT_STARTS:
        return doubtful(0.5, values)
    return opposed(0.9, values)


def _is_switched(change: StatementChange) -> bool:
    """Whether something is on or off: "is on by default", "is turned off in staging"; not "is on the table"."""
    if {word.key for word in change.words} != {"on", "off"}:
        return False
    after = [word.key for word in change.after]
    in_predicate = {word.key for word in change.before if word.in_predicate}
    return in_predicate <= {"turn", "switch"} and (after[0] in ADJUNCT_STARTS or after == ["by", "default"])


def _compare_numbers(old: ParsedStatement, new: ParsedStatement, change: StatementChange) -> Comparison:
    values = change.values
    if change.preceding() in _NUMBERED and change.before[-1].in_predicate == change.removed[0].in_predicate:
        return apart(0.85, "they are about different things")
    if {word.key for word in change.words} <= _SHARED_PORTS:
        return UNKNOWN
    if old.limited or new.limited:
        return doubtful(0.5, values)
    if _is_document_sum(change):
        return UNKNOWN
    if _runs_on(change) or not change.in_predicate:
        return doubtful(0.5, values)
    if (old.verbs | new.verbs) & _MULTI_VALUED and not _is_single_valued(change) and not _is_count(change):
        return UNKNOWN
    return opposed(0.9, values)


def compare_units(change: StatementChange) -> Comparison | None:
    """Compare amounts in different units; None if the values can be compared as they are."""
    match compare_amounts(*change.keys, bare=change.kinds == {"number"}):
        case AmountRelation.EQUAL:
            return same(0.85, "the same amount in other units")
        case AmountRelation.UNCLEAR:
            return UNKNOWN
        case AmountRelation.COMPARABLE:
            return None


def _is_document_sum(change: StatementChange) -> bool:
    """Whether the sum of a document differs: "the invoice is for 300 dollars"."""
    subject = {word.key for word in change.before if not word.in_predicate} - FUNCTION_WORDS
    return bool(subject & _DOCUMENTS) and subject <= _DOCUMENTS | _SUMS


def _is_count(change: StatementChange) -> bool:
    """Whether a number of things differs: "has 3 engineers"."""
    return (
        bool(change.after) and change.after[0].kind == "words" and change.after[0].key not in FUNCTION_WORDS
    )


def _is_attribute(old: ParsedStatement, new: ParsedStatement, change: StatementChange) -> bool:
    """Whether the subject names an attribute that a thing has one of: "the default branch is main"."""
    if not (old.linked and new.linked) or any(word.in_predicate for word in change.before):
        return False
    heads = [
        index
        for index, word in enumerate(change.before)
        if word.raw.lower().removesuffix("'s") in ATTRIBUTES
        or (word.key == "date" and len(change.before) > 1)  # the release date, not the date
    ]
    return any(
        index == len(change.before) - 1 or change.before[index + 1].key in ("of", "for", "in", "on")
        for index in heads
    )


def _has_subject(change: StatementChange) -> bool:
    subject = [word for word in change.before if not word.in_predicate]
    if not subject or subject[0].key in _PRONOUNS:
        return False
    return any(word.key in _PERSONS or word.key not in FUNCTION_WORDS for word in subject)

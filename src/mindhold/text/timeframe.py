"""Parses time phrases in several languages into ranges of instants."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain
from zoneinfo import ZoneInfo

from mindhold.model.errors import UnknownTime
from mindhold.text.time_phrases import (
    ENGLISH_OF,
    FIND_ASIAN,
    FIND_LATIN,
    HAN_NUMBER,
    HINTS,
    MONTH_NAMES,
    MONTH_NUMBER,
    WEEKDAYS,
    Calendar,
    Span,
    expand_placeholders,
    han_number,
    phrase_rewrites,
    resolve_phrase,
    unspaced_rewrites,
    year_before,
)

LONGEST_PHRASE = 100
MOST_WORDS = 14

_ADVICE = (
    'Try "yesterday", "last week", "3 days ago", "March 2023", "since Monday", "between May and July 2024", '
    '"2024-01-01..2024-02-01" or "지난주".'
)
_LANGUAGES = "en es de fr it pt nl ru uk pl tr ko ja zh sv cs id vi ar hi".split()
_LEADING = re.compile(r"(?:(?:in|on|at|during|over|within|of|from|the|sometime|back|around|about)\s+)+")
_ALL_TIME = re.compile(r"(?:at )?any ?time|ever|always|all time|all")
_ISO = r"\d{4}-\d\d(?:-\d\d)?(?:[t ]\S+)?"
_BETWEEN = [
    re.compile(text)
    for text in (
        rf"({_ISO}) ?(?:\.\.\.?|/|--) ?({_ISO})",
        r"between (.+?) and (.+)",
        r"(?:from )?(.+?) (?:to|until|till|through|thru|up to|-|–|—) (.+)",
        r"(.+?) ?(?:\.\.\.?|–|—|~) ?(.+)",
    )
]
_SINCE = re.compile(r"(?:ever )?(?:since|starting|from) (.+?)(?: on(?:wards?)?)?|(.+?) ?\.\.")
_AFTER = re.compile(r"(?:after|following|later than) (.+)")
_BEFORE = re.compile(r"(?:before|prior to|earlier than|older than) (.+)")
_UNTIL = re.compile(r"(?:until|till|up to|up until|through|by) (.+)|\.\. ?(.+)")
# otherwise our own rules match
_GUESSABLE = re.compile(r"^(?!.*\b(?:yesterday|today|tomorrow|ago)\b).*[^\W\d_]{2}")
_HAS_YEAR = re.compile(r"\b(?:19|20|21)\d\d\b")
_WORD = re.compile(r"\w+")
_YEAR = re.compile(r"(?:19|20)\d\d")
_ASIAN_HINT = re.compile("[어오그엊작올재지저이최전년昨今先去前上这這本最年お]")

TimeBounds = tuple[datetime | None, datetime | None]


@dataclass(frozen=True, slots=True)
class Timeframe:
    """A range from `start` up to but excluding `end`, in UTC; None means open."""

    start: datetime | None
    end: datetime | None
    phrase: str


def parse_timeframe(
    phrase: str, *, now: datetime, zone: ZoneInfo, week_start: int = 0, date_order: str = "MDY"
) -> Timeframe:
    """Parse the phrase as of `now` in `zone`. Raises UnknownTime.

    A range between two dates includes both. Without a year the most recent one is assumed. 3/4/2024 is read by
    `date_order` (MDY or DMY); 2024-04-03 is always year, month, day, and 3.4.2024 day, month, year.
    """
    text = _normalize(phrase)
    if text and len(text) <= LONGEST_PHRASE and len(text.split()) <= MOST_WORDS:
        calendar = Calendar(now.astimezone(zone), week_start=week_start, date_order=date_order)
        bounds = _bounds(calendar, text, guess=True)
        if bounds:
            return Timeframe(*bounds, phrase.strip())
    excerpt = phrase.strip() if len(phrase) <= LONGEST_PHRASE else phrase.strip()[:40] + "…"
    raise UnknownTime(f"{excerpt!r} names no time that is understood.", advice=_ADVICE)


def find_timeframe(
    query: str, *, now: datetime, zone: ZoneInfo, week_start: int = 0, date_order: str = "MDY"
) -> Timeframe | None:
    """The time that a question mentions, if it is certain: exactly one phrase, not in the future."""
    text = query[:2000].replace("’", "'")
    if not _may_name_a_time(text):
        return None
    calendar = Calendar(now.astimezone(zone), week_start=week_start, date_order=date_order)
    timeframes: dict[TimeBounds, Timeframe] = {}
    finders = [_finder()] if text.isascii() else [_finder(), _asian_finder()]
    for match in chain.from_iterable(finder.finditer(text) for finder in finders):
        phrase = match.group()
        if phrase.startswith(("may ", "march ")):  # verbs, unless a capital or a word before says otherwise
            continue
        if bounds := _bounds(calendar, _normalize(phrase), guess=False):
            timeframes.setdefault(bounds, Timeframe(*bounds, phrase))
    if len(timeframes) != 1:
        return None
    timeframe = next(iter(timeframes.values()))
    return None if timeframe.start and timeframe.start > now else timeframe


def describe_timeframe(timeframe: Timeframe, zone: ZoneInfo) -> str:
    """Describe a range for people, in their zone, both ends included: `Mon 2025-03-03 to Sun 2025-03-09`."""
    start = timeframe.start.astimezone(zone) if timeframe.start else None
    end = timeframe.end.astimezone(zone) if timeframe.end else None
    if start and end:
        if _is_midnight(start) and _is_midnight(end):
            first, last = _day_name(start), _day_name(end - timedelta(days=1))
            return first if first == last else f"{first} to {last}"
        if end - start <= timedelta(minutes=1):
            return _moment(start)
        same_day = start.date() == end.date()
        return f"{_moment(start)} to {end:%H:%M}" if same_day else f"{_moment(start)} to {_moment(end)}"
    if start:
        return f"since {_moment(start)}"
    return f"before {_moment(end)}" if end else "any time"


def _moment(moment: datetime) -> str:
    return _day_name(moment) if _is_midnight(moment) else f"{_day_name(moment)} {moment:%H:%M}"


def _day_name(moment: datetime) -> str:
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    return f"{weekday} {moment:%Y-%m-%d}"


def _is_midnight(moment: datetime) -> bool:
    return not (moment.hour or moment.minute or moment.second or moment.microsecond)


def _normalize(phrase: str) -> str:
    text = unicodedata.normalize("NFKC", phrase[: 2 * LONGEST_PHRASE]).lower()
    text = text.replace("’", "'").replace("…", "..")
    return " ".join(text.split()).strip(" ,;!?\"'()[]").removesuffix("'s")


def _bounds(calendar: Calendar, text: str, *, guess: bool, depth: int = 0) -> TimeBounds | None:
    if depth > 3 or not text:
        return None
    if _ALL_TIME.fullmatch(text):
        return None, None
    if span := _span(calendar, text):
        return span
    text = _to_english(text)
    if bounds := _linked_bounds(calendar, text, guess=guess, depth=depth):
        return bounds
    for form, into in phrase_rewrites():
        if (match := form.fullmatch(text)) and (
            bounds := _bounds(calendar, match.expand(into), guess=False, depth=depth + 1)
        ):
            return bounds
    translated = " ".join(ENGLISH_OF.get(word.rstrip("."), word) for word in text.split())
    return _span(calendar, translated) or (_guess(calendar, text) if guess else None)


def _to_english(text: str) -> str:
    if text.isascii():
        return text
    text = HAN_NUMBER.sub(lambda match: str(han_number(match[1])), text)
    for form, into in unspaced_rewrites():
        text = form.sub(into, text)
    text = MONTH_NUMBER.sub(lambda match: MONTH_NAMES.get(int(match[1]), match[0]), text)
    return " ".join(text.split())


def _linked_bounds(calendar: Calendar, text: str, *, guess: bool, depth: int) -> TimeBounds | None:
    def side(part: str) -> TimeBounds | None:
        return _bounds(calendar, part.strip(), guess=guess, depth=depth + 1)

    for form in _BETWEEN:
        if (match := form.fullmatch(text)) and (both := _between(calendar, match, side=side)):
            return both
    for form, opening in ((_SINCE, 0), (_AFTER, 1)):
        if (match := form.fullmatch(text)) and (bounds := side(match[match.lastindex or 1])):
            return (bounds[opening], None) if bounds[opening] else None
    for form, closing in ((_BEFORE, 0), (_UNTIL, 1)):
        if (match := form.fullmatch(text)) and (bounds := side(match[match.lastindex or 1])):
            return (None, bounds[closing]) if bounds[closing] else None
    return _span(calendar, text)


def _between(
    calendar: Calendar, match: re.Match[str], *, side: Callable[[str], TimeBounds | None]
) -> TimeBounds | None:
    first, second = match[1].strip(), match[2].strip()
    last = side(second)
    if not last or not last[1]:
        return None
    opening = next(filter(None, map(side, _complete_first(first, second))), None)
    if not opening or not opening[0]:
        return None
    start, end = opening[0], last[1]
    if start < end:
        return start, end
    if _HAS_YEAR.search(first):
        return None
    try:
        local = start.astimezone(calendar.now.tzinfo)
        earlier = local - timedelta(days=7) if first in WEEKDAYS else year_before(local)
        start = earlier.astimezone(UTC)
    except (ValueError, OverflowError):  # before the first year
        return None
    return (start, end) if start < end else None


def _complete_first(first: str, second: str) -> list[str]:
    """Readings of the first date with what the second one supplies: "between March and May 2023", "from 3 to 5 May"."""
    if re.fullmatch(r"\d{1,2}(?:st|nd|rd|th)?", first):
        return [re.sub(r"\d{1,2}(?:st|nd|rd|th)?", first, second, count=1)]
    year = _HAS_YEAR.search(second)
    return [f"{first} {year.group()}", first] if year and not _HAS_YEAR.search(first) else [first]


def _span(calendar: Calendar, text: str) -> TimeBounds | None:
    try:
        span = resolve_phrase(calendar, text)
        if not span and (leading := _LEADING.match(text)):
            span = resolve_phrase(calendar, text[leading.end() :])
        return _instants(calendar, span) if span else None
    except (ValueError, OverflowError):  # outside the calendar's range
        return None


def _instants(calendar: Calendar, span: Span) -> tuple[datetime, datetime]:
    zone = calendar.now.tzinfo
    start, end = (moment if moment.tzinfo else moment.replace(tzinfo=zone) for moment in span)
    return start.astimezone(UTC), end.astimezone(UTC)


def _guess(calendar: Calendar, text: str) -> TimeBounds | None:
    """Parse with dateparser, which knows single dates in many languages."""
    if (text.isascii() and len(text) < 4) or not _GUESSABLE.search(text):
        return None
    from dateparser.date import DateDataParser

    settings = {
        "RELATIVE_BASE": calendar.now.replace(tzinfo=None),
        "PREFER_DATES_FROM": "past",
        "PREFER_DAY_OF_MONTH": "first",
        "DATE_ORDER": calendar.date_order,
        "RETURN_TIME_AS_PERIOD": True,
    }
    try:
        data = DateDataParser(languages=_LANGUAGES, settings=settings).get_date_data(text)
        if not data.date_obj:
            return None
        return _instants(calendar, _period_around(calendar, data.date_obj, data.period))
    except (ValueError, OverflowError):  # outside the calendar's range
        return None


def _period_around(calendar: Calendar, moment: datetime, period: str) -> Span:
    """The whole week, month or year that dateparser reports for a moment."""
    if moment.tzinfo or period == "time":
        return moment, moment + timedelta(hours=1)
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "week":
        return calendar.week(day)
    if period == "month":
        return calendar.months(ahead=0, base=day)
    if period == "year":
        return datetime(day.year, 1, 1), datetime(day.year + 1, 1, 1)
    return day, day + timedelta(days=1)


def _may_name_a_time(text: str) -> bool:
    """A cheap check, because most questions mention no time."""
    if not HINTS.isdisjoint(_WORD.findall(text.lower())) or _YEAR.search(text):
        return True
    return not text.isascii() and bool(_ASIAN_HINT.search(text))


@cache
def _finder() -> re.Pattern[str]:
    month = "(?:" + "|".join(MONTH_NAMES.values()) + ")"
    weekday = "(?:" + "|".join(name for name in WEEKDAYS if name.endswith("day")) + ")"
    units = "(?:minute|hour|day|week|fortnight|month|quarter|year|decade)"
    time_of_day = r"(?: (?:in the )?PART| at \d{1,2}(?::\d\d)?(?: ?[ap]m)?)?"
    single = "|".join(
        (
            r"(?:the )?day before yesterday",
            rf"(?:yesterday|today){time_of_day}",
            r"this (?:morning|afternoon|evening)|last night|tonight",
            rf"(?:about |around )?NUM {units}s? ago",
            rf"(?:(?:in|over|during|within|for) )?(?:the )?(?:last|past|previous) NUM {units}s?",
            r"(?:(?:in|over|during) )?(?:the )?past (?:week|month|year)|(?:last|this) (?:week|weekend|month|quarter|year)",
            r"(?:the )?(?:week|month|year) before last",
            rf"{weekday} (?:last|this) week|(?:last|on|this) {weekday}{time_of_day}",
            rf"(?:in |last |early[ -]|mid[ -]|late[ -]){month}(?:,? (?:of )?YEAR)?|{month},? (?:of )?YEAR",
            rf"(?:on )?{month} \d{{1,2}}(?:st|nd|rd|th)?(?:,? YEAR)?(?!%)",
            rf"(?:on )?(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {month}(?:,? YEAR)?",
            r"SEASON (?:of )?YEAR|last SEASON|q[1-4] YEAR|YEAR q[1-4]",
            r"(?:in|during|early|mid|late) YEAR(?! (?!was|is|has|does)\w+s\b)",
            r"(?:on )?\d{4}-\d\d-\d\d(?:t\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:z|[+-]\d\d:?\d\d)?)?|\d{1,2}/\d{1,2}/\d{4}",
        )
    )
    edge = rf"(?:{single}|YEAR|{month}|{weekday})"
    linked = r"(?:between|from|since|before|after|until|prior to)"
    english = rf"{linked} {edge}(?: (?:and|to|until|till|through) {edge})?|{single}"
    dates = r"\d{4}-\d\d-\d\d ?(?:\.\.|/) ?\d{4}-\d\d-\d\d"
    return re.compile(
        expand_placeholders(rf"(?<![\w./:-])(?:{dates}|{english}|{FIND_LATIN})(?![\w/-]|[.:]\w)"),
        re.IGNORECASE,
    )


@cache
def _asian_finder() -> re.Pattern[str]:
    return re.compile(FIND_ASIAN)

"""English phrases of time, one rule each, to spans of the person's own clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import cache

from mindhold.engine.timeframe_calendar import DAY, Calendar, Span, date_span, month_start
from mindhold.engine.timeframe_words import DAY_PARTS, MONTHS, NUMBERS, ORDINALS, SEASONS, UNITS, WEEKDAYS

RECENTDAYS = 14

Rule = Callable[[Calendar, "re.Match[str]"], Span | None]
_RULES: list[tuple[str, Rule]] = []


def _any(names: Iterable[str]) -> str:
    return "(?:" + "|".join(sorted(names, key=len, reverse=True)) + ")"


_WORDS = {
    "NUM": rf"(?:\d{{1,4}}|{_any(NUMBERS)}|an? few|few|several)",
    "UNIT": _any(UNITS),
    "MONTH": rf"(?:{_any(MONTHS)}\.?)",
    "WEEKDAY": rf"(?:{_any(WEEKDAYS)}\.?)",
    "SEASON": _any(SEASONS),
    "PART": _any(DAY_PARTS),
    "YEAR": r"(?:(?:19|20|21)\d\d)",
    "LAST": r"(?:last|past|previous|preceding)",
    "NEXT": r"(?:next|coming|following|upcoming)",
    "NTH": r"(?:\d{1,2}(?:st|nd|rd|th)?)",
}


def pattern(text: str) -> str:
    """A rule's pattern with the words of time put in for their names."""
    return re.sub(r"\b(?:" + "|".join(_WORDS) + r")\b", lambda match: _WORDS[match.group()], text)


def _rule(text: str) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        _RULES.append((text, rule))
        return rule

    return add


@cache
def _compiled() -> list[tuple[re.Pattern[str], Rule]]:
    return [(re.compile(pattern(text)), rule) for text, rule in _RULES]


def resolve(calendar: Calendar, phrase: str) -> Span | None:
    """The span of a phrase in English, lower case, or nothing."""
    for form, rule in _compiled():
        if (match := form.fullmatch(phrase)) and (span := rule(calendar, match)):
            return span
    return None


def _number(word: str | None) -> int:
    if word is None:
        return 1
    return int(word) if word.isdigit() else NUMBERS.get(word, 0)  # nothing for "few"


def _vague(word: str | None) -> bool:
    return bool(word) and _number(word) == 0 and not str(word).isdigit()


@_rule(r"now|right now|just now|a moment ago")
def _now(calendar: Calendar, _: re.Match[str]) -> Span:
    return calendar.rolling("minute", -10)


@_rule(r"today|yesterday|tomorrow|(?:the )?day before yesterday|(?:the )?day after tomorrow")
def _named_day(calendar: Calendar, match: re.Match[str]) -> Span:
    offset = {"today": 0, "yesterday": -1, "tomorrow": 1}.get(match.group())
    return calendar.day(offset if offset is not None else -2 if "before" in match.group() else 2)


@_rule(r"recently|lately|of late|these days|recent|(?P<other>(?:the )?other day)")
def _recently(calendar: Calendar, match: re.Match[str]) -> Span:
    return calendar.rolling("day", -7 if match["other"] else -RECENTDAYS)


@_rule(r"(?:about |around |some )?(?P<n>NUM) ?(?P<unit>UNIT) (?:ago|back|earlier)")
def _ago(calendar: Calendar, match: re.Match[str]) -> Span:
    unit = UNITS[match["unit"]]
    if _vague(match["n"]):
        return calendar.unit(unit, -5)[0], calendar.unit(unit, -2)[1]
    return calendar.unit(unit, -_number(match["n"]))


@_rule(r"in (?P<n>NUM) (?P<unit>UNIT)|(?P<m>NUM) (?P<unit2>UNIT) from (?:now|today)")
def _from_now(calendar: Calendar, match: re.Match[str]) -> Span | None:
    count = match["n"] or match["m"]
    return None if _vague(count) else calendar.unit(UNITS[match["unit"] or match["unit2"]], _number(count))


@_rule(r"(?:the )?LAST (?P<n>NUM) ?(?P<unit>UNIT)|(?:the )?past (?P<unit2>UNIT)")
def _last_several(calendar: Calendar, match: re.Match[str]) -> Span | None:
    count = 5 if _vague(match["n"]) else _number(match["n"])
    return calendar.rolling(UNITS[match["unit"] or match["unit2"]], -count) if count else None


@_rule(r"(?:the )?NEXT (?P<n>NUM) ?(?P<unit>UNIT)")
def _next_several(calendar: Calendar, match: re.Match[str]) -> Span | None:
    count = 5 if _vague(match["n"]) else _number(match["n"])
    return calendar.rolling(UNITS[match["unit"]], count) if count else None


@_rule(
    r"(?:the )?(?:(?P<last>LAST)|(?P<next>NEXT)|this|current|same) (?P<unit>UNIT)|(?P<before>(?:the )?(?P<unit2>UNIT) before last)"
)
def _whole_unit(calendar: Calendar, match: re.Match[str]) -> Span | None:
    unit = UNITS[match["unit"] or match["unit2"]]
    if unit in ("minute", "hour"):
        return calendar.rolling(unit, 1 if match["next"] else -1)
    return calendar.unit(unit, -2 if match["before"] else -1 if match["last"] else 1 if match["next"] else 0)


@_rule(r"(?:the )?(?:(?P<last>LAST) |(?P<next>NEXT) |this )?weekend")
def _weekend(calendar: Calendar, match: re.Match[str]) -> Span:
    today = calendar.today
    saturday = today + timedelta(days=5 - today.weekday())
    if match["last"] or (not match["next"] and "this" not in match.group() and saturday > today):
        saturday -= timedelta(days=7)
    elif match["next"]:
        saturday += timedelta(days=7)
    return saturday, saturday + timedelta(days=2)


@_rule(
    r"(?:(?P<last>LAST) |(?P<next>NEXT) |this )?(?P<day>WEEKDAY)(?: (?P<week>last|this|next) week| of (?P<week2>last|this|next) week)?"
)
def _weekday(calendar: Calendar, match: re.Match[str]) -> Span:
    wanted, today = WEEKDAYS[match["day"].rstrip(".")], calendar.today
    if week := match["week"] or match["week2"]:
        start = calendar.unit("week", {"last": -1, "this": 0, "next": 1}[week])[0]
        start += timedelta(days=(wanted - start.weekday()) % 7)
        return start, start + DAY
    back = (today.weekday() - wanted) % 7
    if match["next"]:
        return calendar.day(7 - back)
    return calendar.day(-(back or 7) if match["last"] else -back)


@_rule(r"(?P<week>last|this|next) week,? (?:on )?(?P<day>WEEKDAY)")
def _week_then_day(calendar: Calendar, match: re.Match[str]) -> Span | None:
    return resolve(calendar, f"{match['day']} {match['week']} week")


@_rule(r"(?:(?P<last>LAST) |(?P<next>NEXT) |(?P<this>this) )?(?P<month>MONTH)(?:,? (?:of )?(?P<year>YEAR))?")
def _month(calendar: Calendar, match: re.Match[str]) -> Span:
    month, today = MONTHS[match["month"].rstrip(".")], calendar.today
    year = int(match["year"]) if match["year"] else today.year
    if not match["year"] and not match["this"]:
        if match["next"]:
            year += month <= today.month
        else:
            year -= month > today.month or (month == today.month and bool(match["last"]))
    return calendar.months(ahead=0, base=datetime(year, month, 1))


@_rule(
    r"(?P<month>MONTH) (?:the )?(?P<day>NTH)(?:,? (?P<year>YEAR))?"
    r"|(?:the )?(?P<day2>NTH)\.?(?: of)? (?P<month2>MONTH)(?:,? (?:of )?(?P<year2>YEAR))?"
)
def _day_of_month(calendar: Calendar, match: re.Match[str]) -> Span | None:
    month = MONTHS[(match["month"] or match["month2"]).rstrip(".")]
    day = int(re.sub(r"\D", "", match["day"] or match["day2"]))
    if year := match["year"] or match["year2"]:
        return date_span(int(year), month, day)
    today = calendar.today
    for candidate in range(today.year, today.year - 8, -1):
        if (span := date_span(candidate, month, day)) and span[0] <= today:
            return span
    return None


@_rule(r"the (?P<day>\d{1,2})(?:st|nd|rd|th)")
def _day_only(calendar: Calendar, match: re.Match[str]) -> Span | None:
    for ahead in (0, -1, -2):
        first = calendar.months(ahead=ahead)[0]
        span = date_span(first.year, first.month, int(match["day"]))
        if span and span[0] <= calendar.today:
            return span
    return None


@_rule(
    r"(?:(?P<last>LAST) |(?P<next>NEXT) |this |the )?(?P<season>SEASON)(?:,? (?:of )?(?P<year>YEAR))?|(?P<year2>YEAR) (?P<season2>SEASON)"
)
def _season(calendar: Calendar, match: re.Match[str]) -> Span:
    """Of the northern half of the world; a winter is named by the year in which it begins."""
    first, today = SEASONS[match["season"] or match["season2"]], calendar.today
    if year := match["year"] or match["year2"]:
        return calendar.months(ahead=0, count=3, base=datetime(int(year), first, 1))
    spans = [
        calendar.months(ahead=0, count=3, base=datetime(today.year + n, first, 1)) for n in (-2, -1, 0, 1)
    ]
    if match["next"]:
        return next(span for span in spans if span[0] > today)
    begun = [span for span in spans if (span[1] if match["last"] else span[0]) <= today]
    return begun[-1]


@_rule(
    r"(?:(?P<q>q[1-4])|(?:the )?(?P<nth>first|second|third|fourth) quarter(?: of)?)[ -]?(?P<year>YEAR)?|(?P<year2>YEAR)[ -]?(?P<q2>q[1-4])"
)
def _quarter(calendar: Calendar, match: re.Match[str]) -> Span:
    written = match["q"] or match["q2"]
    number = int(written[1]) if written else ORDINALS[match["nth"]]
    return _part_of_year(calendar, match["year"] or match["year2"], months=3, number=number)


@_rule(
    r"(?:(?P<h>h[12])|(?:the )?(?P<nth>first|second) half(?: of)?)[ -]?(?P<year>YEAR)?|(?P<year2>YEAR)[ -]?(?P<h2>h[12])"
)
def _half(calendar: Calendar, match: re.Match[str]) -> Span:
    written = match["h"] or match["h2"]
    number = int(written[1]) if written else ORDINALS[match["nth"]]
    return _part_of_year(calendar, match["year"] or match["year2"], months=6, number=number)


def _part_of_year(calendar: Calendar, written: str | None, *, months: int, number: int) -> Span:
    year = int(written) if written else calendar.today.year
    start = datetime(year, months * (number - 1) + 1, 1)
    if not written and start > calendar.today:
        start = start.replace(year=year - 1)
    return calendar.months(ahead=0, count=months, base=start)


@_rule(r"(?:the )?(?:year )?(?P<year>YEAR)")
def _year(_: Calendar, match: re.Match[str]) -> Span:
    return datetime(int(match["year"]), 1, 1), datetime(int(match["year"]) + 1, 1, 1)


@_rule(r"(?:the )?'?(?P<decade>(?:(?:19|20)\d|[0-9])0)'?s")
def _decade(_: Calendar, match: re.Match[str]) -> Span:
    decade = int(match["decade"])
    if decade < 100:
        decade += 1900 if decade > 20 else 2000
    return datetime(decade, 1, 1), datetime(decade + 10, 1, 1)


@_rule(r"(?P<y>\d{4})[-/.](?P<m>\d{1,2})(?:[-/.](?P<d>\d{1,2}))?|(?P<y2>YEAR)(?P<m2>\d\d)(?P<d2>\d\d)")
def _iso_date(calendar: Calendar, match: re.Match[str]) -> Span | None:
    year, month, day = (match[name] or match[f"{name}2"] for name in "ymd")
    if day:
        return date_span(int(year), int(month), int(day))
    return calendar.months(ahead=0, base=datetime(int(year), int(month), 1))


@_rule(r"(?P<year>\d{4})-?w(?P<week>\d{1,2})")
def _iso_week(_: Calendar, match: re.Match[str]) -> Span:
    start = datetime.fromisocalendar(int(match["year"]), int(match["week"]), 1)
    return start, start + timedelta(days=7)


@_rule(
    r"(?P<a>\d{1,2})(?P<mark>[/.-])(?P<b>\d{1,2})(?P=mark)(?P<year>\d{4})|(?P<month>\d{1,2})/(?P<year2>\d{4})"
)
def _numeric_date(calendar: Calendar, match: re.Match[str]) -> Span | None:
    if match["month"]:
        return calendar.months(ahead=0, base=datetime(int(match["year2"]), int(match["month"]), 1))
    first, second = int(match["a"]), int(match["b"])
    # With dots it is a day first wherever dates have dots; a number above 12 can't be a month.
    day_first = match["mark"] == "." or calendar.date_order.upper().startswith("D") or first > 12
    month, day = (second, first) if day_first and second <= 12 else (first, second)
    return date_span(int(match["year"]), month, day)


@_rule(
    r"(?P<date>\d{4}-\d\d-\d\d)[t ](?P<time>\d\d:\d\d(?P<second>:\d\d)?(?:\.\d{1,6})?) ?(?P<offset>z|[+-]\d\d:?\d\d)?"
)
def _instant(_: Calendar, match: re.Match[str]) -> Span:
    offset = (match["offset"] or "").replace("z", "+00:00")
    start = datetime.fromisoformat(f"{match['date']}T{match['time']}{offset}")
    return start, start + (timedelta(seconds=1) if match["second"] else timedelta(minutes=1))


@_rule(r"tonight|this night|last night|(?P<part>PART)|this (?P<part2>PART)")
def _part_of_today(calendar: Calendar, match: re.Match[str]) -> Span:
    if part := match["part"] or match["part2"]:
        return _hours(calendar.today, *DAY_PARTS[part])
    return _hours(calendar.day(-1 if "last" in match.group() else 0)[0], *DAY_PARTS["night"])


@_rule(r"(?P<day>.+?),? (?:in the |at |during the )?(?P<part>PART)|(?:the )?(?P<part2>PART) of (?P<day2>.+)")
def _part_of_day(calendar: Calendar, match: re.Match[str]) -> Span | None:
    day = resolve(calendar, match["day"] or match["day2"])
    return _hours(day[0], *DAY_PARTS[match["part"] or match["part2"]]) if _is_day(day) and day else None


@_rule(
    r"(?P<day>.+?),? (?:at |around )?(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>am|pm|a\.m\.|p\.m\.)?"
)
def _clock_of_day(calendar: Calendar, match: re.Match[str]) -> Span | None:
    day = resolve(calendar, match["day"])
    if not (match["half"] or match["minute"] or " at " in match.group()) or not _is_day(day) or not day:
        return None
    hour = int(match["hour"])
    if match["half"]:
        hour = hour % 12 + (12 if match["half"].startswith("p") else 0)
    if hour > 23 or int(match["minute"] or 0) > 59:
        return None
    start = day[0] + timedelta(hours=hour, minutes=int(match["minute"] or 0))
    return start, start + timedelta(hours=1)


@_rule(
    r"(?:the )?(?:(?P<early>early|beginning of|start of)|(?P<mid>mid|middle of)|late|end of)(?: in| the)?[ -](?:the )?(?P<rest>.+)"
)
def _third(calendar: Calendar, match: re.Match[str]) -> Span | None:
    whole = resolve(calendar, match["rest"])
    if not whole or whole[0].tzinfo or (days := (whole[1] - whole[0]).days) < 3:
        return None
    if 360 < days < 370:  # in whole months
        early, late = month_start(whole[0], 4), month_start(whole[0], 8)
    else:
        early, late = whole[0] + timedelta(days=days // 3), whole[0] + timedelta(days=days // 3 * 2)
    if match["early"]:
        return whole[0], early
    return (early, late) if match["mid"] else (late, whole[1])


@_rule(r"(?:the )?(?P<unit>week|month) of (?P<rest>.+)")
def _around(calendar: Calendar, match: re.Match[str]) -> Span | None:
    day = resolve(calendar, match["rest"])
    if not day or day[0].tzinfo:
        return None
    return calendar.week(day[0]) if match["unit"] == "week" else calendar.months(ahead=0, base=day[0])


def _is_day(span: Span | None) -> bool:
    return span is not None and span[0].tzinfo is None and span[1] - span[0] == DAY


def _hours(day: datetime, first: int, last: int) -> Span:
    return day + timedelta(hours=first), day + timedelta(hours=last)

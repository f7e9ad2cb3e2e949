"""Resolves English time phrases to spans of a person's calendar, and rewrites other languages' phrases in English."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sept sep", "october oct", "november nov", "december dec",
        ), 1,
    )
    for name in names.split()
}  # fmt: skip
WEEKDAYS = {
    name: number
    for number, names in enumerate(
        ("monday mon", "tuesday tue tues", "wednesday wed", "thursday thu thur thurs", "friday fri", "saturday sat", "sunday sun")
    )
    for name in names.split()
}  # fmt: skip
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "a couple of": 2, "a couple": 2, "couple of": 2, "couple": 2,
}  # fmt: skip
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}
UNITS = {
    name: unit
    for unit, names in {
        "minute": "minute minutes min mins",
        "hour": "hour hours hr hrs h",
        "day": "day days d",
        "week": "week weeks wk wks w",
        "fortnight": "fortnight fortnights",
        "month": "month months mo mos",
        "quarter": "quarter quarters",
        "year": "year years yr yrs y",
        "decade": "decade decades",
    }.items()
    for name in names.split()
}
# Hours of the day; above 24 is the next morning.
DAY_PARTS = {
    "early morning": (4, 8), "dawn": (0, 6), "morning": (5, 12), "noon": (11, 14), "midday": (11, 14),
    "lunchtime": (11, 14), "lunch": (11, 14), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30),
}  # fmt: skip

_HAN_DIGITS = "一二三四五六七八九十"
HAN_NUMBER = re.compile(
    "([一二两兩三四五六七八九十]{1,3})(?=个?個?(?:天|日|周|週|星期|礼拜|月|年|小时|小時|時間|分|ヶ月|か月|ヵ月))"
)


def han_number(numeral: str) -> int:
    """The value of a Chinese numeral from 一 to 九十九."""
    numeral = numeral.replace("两", "二").replace("兩", "二")
    tens, ten, ones = numeral.rpartition("十")
    value = _HAN_DIGITS.index(ones) + 1 if ones else 0
    return value + (10 * (_HAN_DIGITS.index(tens) + 1 if tens else 1) if ten else 0)


_KOREAN_LINKS = [
    (r"(.+?)\s*부터\s*(.+?)\s*까지", r"from \1 to \2"), (r"(.+?)(?:와|과)\s*(.+?)\s*사이", r"between \1 and \2"),
    (r"(.+?)\s*(?:이후로?|이래로?|부터)", r"since \1"),
    (r"(.+?)\s*(?:이전|전까지)(?:에)?", r"before \1"), (r"(.+?)\s*까지", r"until \1"),
]  # fmt: skip
_KOREAN = [
    (r"(\d{4})년\s*(\d{1,2})월\s*(\d{1,2})일", r"\1-\2-\3"), (r"(\d{4})년\s*(\d{1,2})월", r"\1-\2"),
    (r"(\d{4})년\s*(봄|여름|가을|겨울)", r"\2 \1"), (r"(\d{4})년", r"\1"), (r"(\d{1,2})월\s*(\d{1,2})일", r"month\1 \2"),
    (r"(\d+)\s*분\s*전", r"\1 minutes ago"), (r"(\d+)\s*시간\s*전", r"\1 hours ago"), (r"(\d+)\s*일\s*전", r"\1 days ago"),
    (r"(\d+)\s*주(?:일)?\s*전", r"\1 weeks ago"), (r"(\d+)\s*(?:개월|달)\s*전", r"\1 months ago"),
    (r"(\d+)\s*년\s*전", r"\1 years ago"), (r"(?:지난|최근)\s*(\d+)\s*일\s*(?:간|동안)?", r"last \1 days"),
    (r"(?:지난|최근)\s*(\d+)\s*주\s*(?:간|동안)?", r"last \1 weeks"), (r"(?:지난|최근)\s*(\d+)\s*(?:개월|달)\s*(?:간|동안)?", r"last \1 months"),
    (r"(?:지난|최근)\s*(\d+)\s*년\s*(?:간|동안)?", r"last \1 years"), (r"(?:지난|저번)\s*주말", "last weekend"), (r"이번\s*주말", "this weekend"),
    (r"(?:지난|저번)\s*주", "last week"), (r"이번\s*주", "this week"), (r"다음\s*주", "next week"), (r"지지난\s*주", "2 weeks ago"),
    (r"(?:지난|저번)\s*달", "last month"), (r"이번\s*달", "this month"), (r"다음\s*달", "next month"), (r"지난\s*해", "last year"),
    (r"재작년", "2 years ago"), (r"작년", "last year"), (r"올해|금년", "this year"), (r"내년", "next year"),
    (r"그저께|그제|엊그제", "2 days ago"), (r"어젯밤|간밤|지난\s*밤", "last night"), (r"어제", "yesterday"), (r"오늘\s*밤", "tonight"),
    (r"오늘", "today"), (r"내일", "tomorrow"), (r"모레", "in 2 days"), (r"최근에?|요즘|요새", "recently"), (r"새벽", " dawn"),
    (r"아침|오전", " morning"), (r"점심", " noon"), (r"오후", " afternoon"), (r"저녁", " evening"), (r"밤", " night"),
    (r"(\d{1,2})월", r"month\1"), (r"지난", "last "), (r"이번", "this "), (r"다음", "next "), (r"봄", "spring"), (r"여름", "summer"), (r"가을", "autumn"),
    (r"겨울", "winter"), (r"월요일", "monday"), (r"화요일", "tuesday"), (r"수요일", "wednesday"), (r"목요일", "thursday"),
    (r"금요일", "friday"), (r"토요일", "saturday"), (r"일요일", "sunday"), (r"(?<=[a-z0-9])\s*(?:에는|에|의|동안)(?=\s|$)", ""),
]  # fmt: skip
_HAN_LINKS = [
    (r"(?:从|從|自)?(.+?)(?:から|到|至)(.+?)(?:まで|之间|之間|为止)?", r"from \1 to \2"), (r"(.+?)(?:以来|以來|以降|から)", r"since \1"),
    (r"(.+?)(?:之后|之後|以后|以後)", r"after \1"), (r"(.+?)(?:より前|之前|以前)", r"before \1"), (r"(.+?)まで", r"until \1"),
]  # fmt: skip
_HAN = [
    (r"(\d{4})年\s*(\d{1,2})月\s*(\d{1,2})[日号號]", r"\1-\2-\3"), (r"(\d{4})年\s*(\d{1,2})月(?:份)?", r"\1-\2"),
    (r"(\d{4})年の?(春|夏|秋|冬)[天季]?", r"\2 \1"), (r"(\d{4})年", r"\1"), (r"(\d{1,2})月\s*(\d{1,2})[日号號]", r"month\1 \2"),
    (r"(\d+)\s*(?:分|分钟|分鐘)(?:之|以)?前", r"\1 minutes ago"), (r"(\d+)\s*(?:時間|个?小时|個?小時)(?:之|以)?前", r"\1 hours ago"),
    (r"(\d+)\s*(?:日|天)(?:之|以)?前", r"\1 days ago"), (r"(\d+)\s*(?:週間|週|周|个?星期|個?星期|个礼拜)(?:之|以)?前", r"\1 weeks ago"),
    (r"(\d+)\s*(?:ヶ月|か月|ヵ月|カ月|个月|個月|月)(?:之|以)?前", r"\1 months ago"), (r"(\d+)\s*年(?:之|以)?前", r"\1 years ago"),
    (r"(?:最近|过去|過去|近|ここ|この)の?(\d+)\s*(?:日間|日|天)", r"last \1 days"), (r"(?:最近|过去|過去|近)の?(\d+)\s*(?:週間|週|周|个?星期)", r"last \1 weeks"),
    (r"(?:最近|过去|過去|近)の?(\d+)\s*(?:ヶ月|か月|个月|個月)間?", r"last \1 months"), (r"(?:最近|过去|過去|近)の?(\d+)\s*年間?", r"last \1 years"),
    (r"先週末|先週の週末|上周末|上週末|上个周末", "last weekend"), (r"今週末|这个?周末|這個?週末|本周末", "this weekend"),
    (r"(?:上个?|上個?)(?:星期|周|週|礼拜)(?:の)?([一二三四五六日天])", r"weekday\1 last week"),
    (r"(?:这个?|這個?|本)(?:星期|周|週|礼拜)([一二三四五六日天])", r"weekday\1 this week"),
    (r"先々週|上上(?:个|個)?(?:周|週|星期)", "2 weeks ago"), (r"先週|上(?:个|個)?(?:周|週|星期|礼拜)", "last week"),
    (r"今週|(?:这|這|本)(?:个|個)?(?:周|週|星期|礼拜)", "this week"), (r"来週|下(?:个|個)?(?:周|週|星期|礼拜)", "next week"),
    (r"先々月|上上(?:个|個)月", "2 months ago"), (r"先月|上(?:个|個)?月", "last month"), (r"今月|(?:这|這)(?:个|個)月|本月", "this month"),
    (r"来月|下(?:个|個)月", "next month"), (r"一昨年|おととし|前年", "2 years ago"), (r"昨年|去年", "last year"), (r"今年", "this year"),
    (r"来年|明年", "next year"), (r"一昨日|おととい|前天", "2 days ago"), (r"昨夜|昨晩|ゆうべ|昨晚", "last night"), (r"昨日|きのう|昨天", "yesterday"),
    (r"今朝|今早|今天早上", "this morning"), (r"今夜|今晩|今晚", "tonight"), (r"今日|きょう|今天", "today"), (r"明日|あした|明天", "tomorrow"), (r"明後日|后天|後天", "in 2 days"),
    (r"最近|近頃|近来", "recently"), (r"の?凌晨", " dawn"), (r"の?(?:朝|午前|早上|上午)", " morning"), (r"の?(?:午後|下午)", " afternoon"), (r"の?中午|の?昼", " noon"),
    (r"の?(?:夕方|傍晚)", " evening"), (r"の?(?:夜|晚上|晚)", " night"), (r"(\d{1,2})月份?", r"month\1"), (r"春[天季]?", "spring"), (r"夏[天季]?", "summer"),
    (r"秋[天季]?", "autumn"), (r"冬[天季]?", "winter"), (r"([月火水木金土日])曜日?", r"weekday\1"), (r"(?:星期|周|週|礼拜)([一二三四五六日天])", r"weekday\1"),
    (r"の(?=weekday)", " "), (r"(?<=[a-z0-9])[にはの]+$", ""),
]  # fmt: skip
_WEEKDAY_SIGNS = [(f"weekday[{signs}]", name) for signs, name in zip(
    ("月一", "火二", "水三", "木四", "金五", "土六", "日天"),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"), strict=True,
)]  # fmt: skip
_SPANISH = [
    (r"entre (.+) y (.+)", r"between \1 and \2"), (r"desde (.+) hasta (.+)", r"from \1 to \2"), (r"desde (.+)", r"since \1"),
    (r"hasta (.+)", r"until \1"), (r"antes de(?:l)? (.+)", r"before \1"), (r"despu[eé]s de(?:l)? (.+)", r"after \1"),
    (r"hace (\S+) d[ií]as?", r"\1 days ago"), (r"hace (\S+) semanas?", r"\1 weeks ago"), (r"hace (\S+) mes(?:es)?", r"\1 months ago"),
    (r"hace (\S+) años?", r"\1 years ago"), (r"hace (\S+) horas?", r"\1 hours ago"), (r"(?:en )?l[oa]s [uú]ltim[oa]s (\S+) d[ií]as", r"last \1 days"),
    (r"(?:en )?l[oa]s [uú]ltim[oa]s (\S+) semanas", r"last \1 weeks"), (r"(?:en )?l[oa]s [uú]ltim[oa]s (\S+) meses", r"last \1 months"),
    (r"anteayer|antier", "2 days ago"), (r"anoche|ayer por la noche", "last night"), (r"ayer por la mañana", "yesterday morning"), (r"ayer por la tarde", "yesterday afternoon"),
    (r"esta mañana", "this morning"), (r"esta noche", "tonight"), (r"ayer", "yesterday"), (r"hoy", "today"), (r"mañana", "tomorrow"), (r"recientemente|[uú]ltimamente", "recently"),
    (r"(?:en )?(?:la )?semana pasada", "last week"), (r"esta semana", "this week"), (r"(?:la )?pr[oó]xima semana|(?:la )?semana que viene", "next week"),
    (r"(?:el )?fin de semana pasado", "last weekend"), (r"(?:el )?mes pasado", "last month"), (r"este mes", "this month"), (r"(?:el )?pr[oó]ximo mes", "next month"),
    (r"(?:el )?año pasado", "last year"), (r"este año", "this year"), (r"(?:el )?pr[oó]ximo año", "next year"), (r"(?:el )?(\S+) pasado", r"last \1"), (r"en (\S+) de(?:l)? (\d{4})|(\S+) de(?:l)? (\d{4})", r"\1\3 \2\4"),
]  # fmt: skip
_GERMAN = [
    (r"zwischen (.+) und (.+)", r"between \1 and \2"), (r"(?:von|vom) (.+) bis (?:zum )?(.+)", r"from \1 to \2"),
    (r"vor (\S+) tag(?:en)?", r"\1 days ago"), (r"vor (\S+) wochen?", r"\1 weeks ago"), (r"vor (\S+) monat(?:en)?", r"\1 months ago"),
    (r"vor (\S+) jahr(?:en)?", r"\1 years ago"), (r"vor (\S+) stunden?", r"\1 hours ago"), (r"(?:in den |die )?letzten (\S+) tagen?", r"last \1 days"),
    (r"(?:in den |die )?letzten (\S+) wochen", r"last \1 weeks"), (r"(?:in den |die )?letzten (\S+) monaten?", r"last \1 months"), (r"seit (.+)", r"since \1"), (r"bis (?:zum )?(.+)", r"until \1"),
    (r"vorgestern", "2 days ago"), (r"gestern abend", "yesterday evening"), (r"gestern nacht|letzte nacht", "last night"), (r"gestern (?:früh|morgen)", "yesterday morning"), (r"gestern nachmittag", "yesterday afternoon"),
    (r"heute (?:früh|morgen|vormittag)", "this morning"), (r"heute nachmittag", "today afternoon"), (r"heute abend|heute nacht", "tonight"), (r"gestern", "yesterday"), (r"heute", "today"), (r"übermorgen", "in 2 days"), (r"morgen", "tomorrow"),
    (r"(?:(?:in der )?letzten?|vorige|vergangene) woche", "last week"), (r"(?:in )?diese[rn]? woche", "this week"), (r"(?:in der )?nächsten? woche", "next week"), (r"(?:am )?letzte[sn] wochenende", "last weekend"),
    (r"(?:im )?letzten monat|vorigen monat", "last month"), (r"diesen monat|in diesem monat", "this month"), (r"(?:im )?nächsten monat", "next month"), (r"letztes jahr|(?:im )?letzten jahr|voriges jahr", "last year"), (r"dieses jahr|in diesem jahr", "this year"),
    (r"nächstes jahr", "next year"), (r"(?:am )?letzten (\S+)", r"last \1"), (r"(?:am|im) (\S+)", r"\1"), (r"im (\S+) (\d{4})", r"\1 \2"), (r"kürzlich|neulich|in letzter zeit", "recently"), (r"vor (.+)", r"before \1"), (r"nach (.+)", r"after \1"),
]  # fmt: skip
_FRENCH = [
    (r"entre (.+) et (.+)", r"between \1 and \2"), (r"(?:de|du) (.+) (?:à|au|jusqu'au|jusqu'à) (.+)", r"from \1 to \2"), (r"depuis (.+)", r"since \1"), (r"jusqu'(?:au|à) (.+)", r"until \1"),
    (r"avant[ -]hier", "2 days ago"), (r"avant (.+)", r"before \1"), (r"apr[eè]s (.+)", r"after \1"), (r"il y a (\S+) jours?", r"\1 days ago"), (r"il y a (\S+) semaines?", r"\1 weeks ago"), (r"il y a (\S+) mois", r"\1 months ago"),
    (r"il y a (\S+) ans?", r"\1 years ago"), (r"il y a (\S+) heures?", r"\1 hours ago"), (r"(?:ces |(?:dans )?les )?(\S+) derniers jours", r"last \1 days"), (r"(?:ces |les )?(\S+) derni[eè]res semaines", r"last \1 weeks"),
    (r"(?:ces |les )?(\S+) derniers mois", r"last \1 months"), (r"hier soir", "yesterday evening"), (r"hier matin", "yesterday morning"), (r"hier apr[eè]s-midi", "yesterday afternoon"), (r"la nuit derni[eè]re|cette nuit", "last night"), (r"ce matin", "this morning"),
    (r"ce soir", "tonight"), (r"hier", "yesterday"), (r"aujourd'hui", "today"), (r"apr[eè]s-demain", "in 2 days"), (r"demain", "tomorrow"), (r"(?:la )?semaine derni[eè]re", "last week"), (r"cette semaine", "this week"), (r"(?:la )?semaine prochaine", "next week"),
    (r"(?:le )?week-?end dernier", "last weekend"), (r"(?:le )?mois dernier", "last month"), (r"ce mois(?:-ci)?", "this month"), (r"(?:le )?mois prochain", "next month"), (r"l'an(?:n[eé]e)? derni(?:er|[eè]re)", "last year"), (r"cette ann[eé]e", "this year"),
    (r"l'an(?:n[eé]e)? prochaine?", "next year"), (r"(\S+) dernier", r"last \1"), (r"r[eé]cemment|derni[eè]rement", "recently"), (r"en (\S+)((?: \d{4})?)", r"\1\2"),
]  # fmt: skip
_FOREIGN_NAMES = {
    "january": "enero januar jänner janvier", "february": "febrero februar février fevrier", "march": "marzo märz maerz mars",
    "april": "abril avril", "may": "mayo mai", "june": "junio juni juin", "july": "julio juli juillet", "august": "agosto août aout",
    "september": "septiembre septembre", "october": "octubre oktober octobre", "november": "noviembre novembre",
    "december": "diciembre dezember décembre decembre", "monday": "lunes montag lundi", "tuesday": "martes dienstag mardi",
    "wednesday": "miércoles miercoles mittwoch mercredi", "thursday": "jueves donnerstag jeudi", "friday": "viernes freitag vendredi",
    "saturday": "sábado samstag sonnabend samedi", "sunday": "domingo sonntag dimanche", "spring": "primavera frühling printemps",
    "summer": "verano sommer été", "autumn": "otoño herbst automne", "winter": "invierno hiver",
    "1": "un una uno ein eine einem einer une", "2": "dos zwei deux", "3": "tres drei trois", "4": "cuatro vier quatre", "5": "cinco fünf cinq",
    "6": "seis sechs six", "7": "siete sieben sept", "10": "diez zehn dix",
}  # fmt: skip
ENGLISH_OF = {foreign: name for name, foreigns in _FOREIGN_NAMES.items() for foreign in foreigns.split()}

_FIND_KOREAN = (
    r"(?<![가-힣])(?:어제|오늘|그저께|엊그제|어젯밤|재작년|작년|올해|(?:지난|저번|이번)\s*주말|(?:지난|저번|이번)\s*주(?![가-힣])|(?:지난|저번|이번)\s*주(?=에)"
    r"|(?:지난|저번|이번)\s*달|지난\s*해|지난\s*[월화수목금토일]요일|(?:지난|최근)\s*\d+\s*(?:일|주|개월|달|년)(?:\s*간|\s*동안)?"
    r"|\d+\s*(?:분|시간|일|주일?|개월|달|년)\s*전(?![가-힣])|\d+\s*(?:분|시간|일|주일?|개월|달|년)\s*전(?=에)|\d{4}년(?:\s*\d{1,2}월(?:\s*\d{1,2}일)?)?)"
    r"(?:\s*(?:아침|오전|점심|오후|저녁|밤|새벽))?(?:\s*(?:이후|이전|부터|까지))?"
)
_FIND_HAN = (
    r"(?:一昨日|おととい|昨日|昨夜|昨晩|今朝|今日|先々週|先週末|先週|今週末|今週|先々月|先月|今月|一昨年|昨年|去年|今年|前天|昨天|昨晚|今天|今早"
    r"|上个?個?周末|上週末|上上?(?:个|個)?(?:周|週|星期|礼拜)[一二三四五六日天]?|[这這本](?:个|個)?(?:周|週|星期)|上(?:个|個)?月|[这這](?:个|個)月|本月"
    r"|(?:\d+|[一二两兩三四五六七八九十]{1,3})\s*(?:分钟|分|時間|个?小时|個?小時|日|天|週間|周|週|个?星期|ヶ月|か月|ヵ月|个月|個月|年)(?:之|以)?前"
    r"|\d{4}年(?:\s*\d{1,2}月(?:\s*\d{1,2}[日号號])?)?)(?:の?(?:朝|午前|午後|夕方|夜|早上|上午|中午|下午|傍晚|晚上))?(?:以来|以來|以降|以後|以后|之后|之後|之前|以前)?"
)
FIND_LATIN = (
    r"(?:ayer(?: por la (?:mañana|tarde|noche))?|anteayer|anoche|la semana pasada|el mes pasado|el año pasado|esta semana|este mes"
    r"|hace \w+ (?:d[ií]as?|semanas?|mes(?:es)?|años?|horas?)|gestern(?: abend| nacht| morgen| nachmittag)?|vorgestern|(?:letzte|vorige) woche"
    r"|diese woche|letzten monat|letztes jahr|vor \w+ (?:tag(?:en)?|wochen?|monat(?:en)?|jahr(?:en)?|stunden?)|hier (?:soir|matin)|avant-hier"
    r"|la semaine derni[eè]re|le mois dernier|l'ann[eé]e derni[eè]re|cette semaine|aujourd'hui|il y a \w+ (?:jours?|semaines?|mois|ans?|heures?))"
)
FIND_ASIAN = f"{_FIND_KOREAN}|{_FIND_HAN}"

# `find_timeframe` finds nothing in a text that has neither a digit nor one of these words.
HINTS = frozenset(
    """
    ago yesterday today tonight night morning afternoon evening last past previous this since before after until prior
    between early mid late ayer anteayer anoche hace semana mes año gestern vorgestern woche monat jahr
    vor hier avant semaine mois année annee aujourd il este esta diese
    """.split()
) | frozenset(name for name in (*MONTHS, *WEEKDAYS) if len(name) > 4 or name in ("may", "june", "july"))

MONTH_NUMBER = re.compile(r"month(\d{1,2})")
MONTH_NAMES = {number: name for name, number in reversed(MONTHS.items())}
Rewritings = list[tuple[re.Pattern[str], str]]


@cache
def unspaced_rewrites() -> Rewritings:
    """Rewrites for languages without spaces: applied anywhere in a phrase."""
    return [(re.compile(pattern), into) for pattern, into in [*_KOREAN, *_HAN, *_WEEKDAY_SIGNS]]


@cache
def phrase_rewrites() -> Rewritings:
    """Rewrites that apply only to a whole phrase."""
    tables = [*_KOREAN_LINKS, *_HAN_LINKS, *_SPANISH, *_GERMAN, *_FRENCH]
    return [(re.compile(pattern), into) for pattern, into in tables]


# Half-open. Naive ends are wall-clock time in the person's zone, so that a day runs from midnight to midnight whatever
# its length; aware ends are instants.
Span = tuple[datetime, datetime]

DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Calendar:
    """The person's clock and calendar settings when the phrase is used."""

    now: datetime  # aware, in the person's zone
    week_start: int = 0
    date_order: str = "MDY"

    @property
    def today(self) -> datetime:
        return self.now.replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)

    def day(self, offset: int) -> Span:
        start = self.today + timedelta(days=offset)
        return start, start + DAY

    def week(self, day: datetime) -> Span:
        start = day - timedelta(days=(day.weekday() - self.week_start) % 7)
        return start, start + timedelta(days=7)

    def months(self, *, ahead: int, count: int = 1, base: datetime | None = None) -> Span:
        return month_start(base or self.today, ahead), month_start(base or self.today, ahead + count)

    def unit(self, name: str, offset: int) -> Span:
        """The whole day, week, month or other unit at `offset` from the present one."""
        today = self.today
        if name in ("minute", "hour"):
            instant = self.now.astimezone(UTC) + timedelta(**{f"{name}s": offset})
            slack = timedelta(minutes=30 if name == "hour" else max(2, abs(offset) // 4))
            return instant - slack, instant + slack
        if name == "day":
            return self.day(offset)
        if name in ("week", "fortnight"):
            return self.week(today + timedelta(days=offset * (7 if name == "week" else 14)))
        if name == "month":
            return self.months(ahead=offset)
        if name == "quarter":
            return self.months(ahead=3 * offset - (today.month - 1) % 3, count=3)
        years = 1 if name == "year" else 10
        first = today.year + offset if years == 1 else today.year // 10 * 10 + 10 * offset
        return datetime(first, 1, 1), datetime(first + years, 1, 1)

    def rolling(self, name: str, count: int) -> Span:
        """The last (count < 0) or next units, including the present day and moment."""
        today = self.today
        if name in ("minute", "hour"):
            now = self.now.astimezone(UTC)  # in UTC an hour is an hour, also when the clocks change
            edge = now + timedelta(**{f"{name}s": count})
            return (edge, now + _INSTANT) if count < 0 else (now, edge)
        if name in ("day", "week", "fortnight"):
            edge = today + timedelta(days=count * {"day": 1, "week": 7, "fortnight": 14}[name])
        else:
            edge = _same_day(today, count * {"month": 1, "quarter": 3, "year": 12, "decade": 120}[name])
        return (edge, today + DAY) if count < 0 else (today, edge + DAY)


def month_start(base: datetime, ahead: int) -> datetime:
    """The first day of the month that is `ahead` months after `base`."""
    year, month = divmod(base.year * 12 + base.month - 1 + ahead, 12)
    return datetime(year, month + 1, 1)


def _same_day(base: datetime, ahead: int) -> datetime:
    first = month_start(base, ahead)
    return first.replace(day=min(base.day, monthrange(first.year, first.month)[1]))


def year_before(moment: datetime) -> datetime:
    """The same day one year earlier; 28 February for 29 February."""
    year = moment.year - 1
    return moment.replace(year=year, day=min(moment.day, monthrange(year, moment.month)[1]))


def date_span(year: int, month: int, day: int) -> Span | None:
    """The span of that day; None if it doesn't exist."""
    if not (1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]):
        return None
    return datetime(year, month, day), datetime(year, month, day) + DAY


RECENT_DAYS = 14

TimeRule = Callable[[Calendar, "re.Match[str]"], Span | None]
_RULES: list[tuple[str, TimeRule]] = []


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


def expand_placeholders(text: str) -> str:
    """Replace the placeholders of a rule (NUM, UNIT, MONTH ...) by the patterns of their words."""
    return re.sub(r"\b(?:" + "|".join(_WORDS) + r")\b", lambda match: _WORDS[match.group()], text)


def _rule(text: str) -> Callable[[TimeRule], TimeRule]:
    def add(rule: TimeRule) -> TimeRule:
        _RULES.append((text, rule))
        return rule

    return add


@cache
def _compiled_rules() -> list[tuple[re.Pattern[str], TimeRule]]:
    return [(re.compile(expand_placeholders(text)), rule) for text, rule in _RULES]


def resolve_phrase(calendar: Calendar, phrase: str) -> Span | None:
    """The span of an English phrase in lower case, or None."""
    for form, rule in _compiled_rules():
        if (match := form.fullmatch(phrase)) and (span := rule(calendar, match)):
            return span
    return None


def _number(word: str | None) -> int:
    if word is None:
        return 1
    return int(word) if word.isdigit() else NUMBERS.get(word, 0)  # 0 for "few"


def _is_vague(word: str | None) -> bool:
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
    return calendar.rolling("day", -7 if match["other"] else -RECENT_DAYS)


@_rule(r"(?:about |around |some )?(?P<n>NUM) ?(?P<unit>UNIT) (?:ago|back|earlier)")
def _ago(calendar: Calendar, match: re.Match[str]) -> Span:
    unit = UNITS[match["unit"]]
    if _is_vague(match["n"]):
        return calendar.unit(unit, -5)[0], calendar.unit(unit, -2)[1]
    return calendar.unit(unit, -_number(match["n"]))


@_rule(r"in (?P<n>NUM) (?P<unit>UNIT)|(?P<m>NUM) (?P<unit2>UNIT) from (?:now|today)")
def _from_now(calendar: Calendar, match: re.Match[str]) -> Span | None:
    count = match["n"] or match["m"]
    return None if _is_vague(count) else calendar.unit(UNITS[match["unit"] or match["unit2"]], _number(count))


@_rule(r"(?:the )?LAST (?P<n>NUM) ?(?P<unit>UNIT)|(?:the )?past (?P<unit2>UNIT)")
def _last_several(calendar: Calendar, match: re.Match[str]) -> Span | None:
    count = 5 if _is_vague(match["n"]) else _number(match["n"])
    return calendar.rolling(UNITS[match["unit"] or match["unit2"]], -count) if count else None


@_rule(r"(?:the )?NEXT (?P<n>NUM) ?(?P<unit>UNIT)")
def _next_several(calendar: Calendar, match: re.Match[str]) -> Span | None:
    count = 5 if _is_vague(match["n"]) else _number(match["n"])
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
    weekday, today = WEEKDAYS[match["day"].rstrip(".")], calendar.today
    if week := match["week"] or match["week2"]:
        start = calendar.unit("week", {"last": -1, "this": 0, "next": 1}[week])[0]
        start += timedelta(days=(weekday - start.weekday()) % 7)
        return start, start + DAY
    back = (today.weekday() - weekday) % 7
    if match["next"]:
        return calendar.day(7 - back)
    return calendar.day(-(back or 7) if match["last"] else -back)


@_rule(r"(?P<week>last|this|next) week,? (?:on )?(?P<day>WEEKDAY)")
def _week_then_day(calendar: Calendar, match: re.Match[str]) -> Span | None:
    return resolve_phrase(calendar, f"{match['day']} {match['week']} week")


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
    """A season of the northern hemisphere; a winter has the year in which it begins."""
    first, today = SEASONS[match["season"] or match["season2"]], calendar.today
    if year := match["year"] or match["year2"]:
        return calendar.months(ahead=0, count=3, base=datetime(int(year), first, 1))
    spans = [
        calendar.months(ahead=0, count=3, base=datetime(today.year + n, first, 1)) for n in (-2, -1, 0, 1)
    ]
    if match["next"]:
        return next(span for span in spans if span[0] > today)
    started = [span for span in spans if (span[1] if match["last"] else span[0]) <= today]
    return started[-1]


@_rule(
    r"(?:(?P<part>q[1-4]|h[12])|(?:the )?(?P<nth>first|second|third|fourth) (?P<noun>quarter|half)(?: of)?)[ -]?(?P<year>YEAR)?"
    r"|(?P<year2>YEAR)[ -]?(?P<part2>q[1-4]|h[12])"
)
def _quarter_or_half(calendar: Calendar, match: re.Match[str]) -> Span | None:
    label = match["part"] or match["part2"]
    number = int(label[1]) if label else ORDINALS[match["nth"]]
    months = 3 if (label or match["noun"]).startswith("q") else 6
    if months * number > 12:  # no third half
        return None
    year_text, today = match["year"] or match["year2"], calendar.today
    start = datetime(int(year_text or today.year), months * (number - 1) + 1, 1)
    if not year_text and start > today:
        start = start.replace(year=start.year - 1)
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
    # Dates with dots start with the day; a number above 12 can't be a month.
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
    day = resolve_phrase(calendar, match["day"] or match["day2"])
    return _hours(day[0], *DAY_PARTS[match["part"] or match["part2"]]) if _is_day(day) and day else None


@_rule(
    r"(?P<day>.+?),? (?:at |around )?(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>am|pm|a\.m\.|p\.m\.)?"
)
def _clock_of_day(calendar: Calendar, match: re.Match[str]) -> Span | None:
    day = resolve_phrase(calendar, match["day"])
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
def _third_of_span(calendar: Calendar, match: re.Match[str]) -> Span | None:
    span = resolve_phrase(calendar, match["rest"])
    if not span or span[0].tzinfo or (days := (span[1] - span[0]).days) < 3:
        return None
    if 360 < days < 370:  # in whole months
        early, late = month_start(span[0], 4), month_start(span[0], 8)
    else:
        early, late = span[0] + timedelta(days=days // 3), span[0] + timedelta(days=days // 3 * 2)
    if match["early"]:
        return span[0], early
    return (early, late) if match["mid"] else (late, span[1])


@_rule(r"(?:the )?(?P<unit>week|month) of (?P<rest>.+)")
def _unit_around(calendar: Calendar, match: re.Match[str]) -> Span | None:
    day = resolve_phrase(calendar, match["rest"])
    if not day or day[0].tzinfo:
        return None
    return calendar.week(day[0]) if match["unit"] == "week" else calendar.months(ahead=0, base=day[0])


def _is_day(span: Span | None) -> bool:
    return span is not None and span[0].tzinfo is None and span[1] - span[0] == DAY


def _hours(day: datetime, first: int, last: int) -> Span:
    return day + timedelta(hours=first), day + timedelta(hours=last)

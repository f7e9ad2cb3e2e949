from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.model.errors import UnknownTime
from mindhold.text.timeframe import Timeframe, describe_timeframe, find_timeframe, parse_timeframe

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
NOW = datetime(2025, 3, 12, 14, 30, tzinfo=UTC)  # a Wednesday, half past three in Berlin


def said(phrase: str, **options: object) -> str:
    return describe_timeframe(parse_timeframe(phrase, now=NOW, zone=BERLIN, **options), BERLIN)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phrase", "meaning"),
    [
        ("today", "Wed 2025-03-12"),
        ("Yesterday", "Tue 2025-03-11"),
        ("the day before yesterday", "Mon 2025-03-10"),
        ("yesterday evening", "Tue 2025-03-11 17:00 to Wed 2025-03-12"),
        ("this morning", "Wed 2025-03-12 05:00 to 12:00"),
        ("tonight", "Wed 2025-03-12 18:00 to Thu 2025-03-13 06:00"),
        ("last night", "Tue 2025-03-11 18:00 to Wed 2025-03-12 06:00"),
        ("yesterday at 3pm", "Tue 2025-03-11 15:00 to 16:00"),
        ("Monday morning", "Mon 2025-03-10 05:00 to 12:00"),
        ("3 hours ago", "Wed 2025-03-12 12:00 to 13:00"),
        ("3 days ago", "Sun 2025-03-09"),
        ("2 weeks ago", "Mon 2025-02-24 to Sun 2025-03-02"),
        ("a couple of weeks ago", "Mon 2025-02-24 to Sun 2025-03-02"),
        ("a fortnight ago", "Mon 2025-02-24 to Sun 2025-03-02"),
        ("a few days ago", "Fri 2025-03-07 to Mon 2025-03-10"),
        ("five months ago", "Tue 2024-10-01 to Thu 2024-10-31"),
        ("two years ago", "Sun 2023-01-01 to Sun 2023-12-31"),
        ("last 7 days", "Wed 2025-03-05 to Wed 2025-03-12"),
        ("in the past 3 months", "Thu 2024-12-12 to Wed 2025-03-12"),
        ("past week", "Wed 2025-03-05 to Wed 2025-03-12"),
        ("last 24h", "Tue 2025-03-11 15:30 to Wed 2025-03-12 15:30"),
        ("last week", "Mon 2025-03-03 to Sun 2025-03-09"),
        ("this week", "Mon 2025-03-10 to Sun 2025-03-16"),
        ("the week before last", "Mon 2025-02-24 to Sun 2025-03-02"),
        ("last weekend", "Sat 2025-03-08 to Sun 2025-03-09"),
        ("last Monday", "Mon 2025-03-10"),
        ("last Wednesday", "Wed 2025-03-05"),
        ("on Tuesday", "Tue 2025-03-11"),
        ("Monday last week", "Mon 2025-03-03"),
        ("last month", "Sat 2025-02-01 to Fri 2025-02-28"),
        ("last year", "Mon 2024-01-01 to Tue 2024-12-31"),
        ("last quarter", "Tue 2024-10-01 to Tue 2024-12-31"),
        ("March 2023", "Wed 2023-03-01 to Fri 2023-03-31"),
        ("in March", "Sat 2025-03-01 to Mon 2025-03-31"),
        ("in April", "Mon 2024-04-01 to Tue 2024-04-30"),
        ("last March", "Fri 2024-03-01 to Sun 2024-03-31"),
        ("March 5", "Wed 2025-03-05"),
        ("5th of March 2024", "Tue 2024-03-05"),
        ("Dec 25, 2023", "Mon 2023-12-25"),
        ("spring 2024", "Fri 2024-03-01 to Fri 2024-05-31"),
        ("last summer", "Sat 2024-06-01 to Sat 2024-08-31"),
        ("Q3 2025", "Tue 2025-07-01 to Tue 2025-09-30"),
        ("2023", "Sun 2023-01-01 to Sun 2023-12-31"),
        ("the 90s", "Mon 1990-01-01 to Fri 1999-12-31"),
        ("early May", "Wed 2024-05-01 to Fri 2024-05-10"),
        ("mid-May", "Sat 2024-05-11 to Mon 2024-05-20"),
        ("late May", "Tue 2024-05-21 to Fri 2024-05-31"),
        ("late 2023", "Fri 2023-09-01 to Sun 2023-12-31"),
        ("recently", "Wed 2025-02-26 to Wed 2025-03-12"),
        ("between March and May 2023", "Wed 2023-03-01 to Wed 2023-05-31"),
        ("from Monday to Tuesday", "Mon 2025-03-10 to Tue 2025-03-11"),
        ("from March to May", "Fri 2024-03-01 to Fri 2024-05-31"),
        ("from 3 to 5 May", "Fri 2024-05-03 to Sun 2024-05-05"),
        ("since Monday", "since Mon 2025-03-10"),
        ("before 2024", "before Mon 2024-01-01"),
        ("until yesterday", "before Wed 2025-03-12"),
        ("after March 5", "since Thu 2025-03-06"),
        ("2024-01-01..2024-02-01", "Mon 2024-01-01 to Thu 2024-02-01"),
        ("2024-01-01/2024-02-01", "Mon 2024-01-01 to Thu 2024-02-01"),
        ("2024-03", "Fri 2024-03-01 to Sun 2024-03-31"),
        ("2024-03-05", "Tue 2024-03-05"),
        ("2024-W10", "Mon 2024-03-04 to Sun 2024-03-10"),
        ("25/12/2024", "Wed 2024-12-25"),
        ("3.4.2024", "Wed 2024-04-03"),
        ("2024-03-01T10:00:00Z", "Fri 2024-03-01 11:00"),
        ("2024-03-01T10:00+09:00", "Fri 2024-03-01 02:00"),
        ("any time", "any time"),
        ("tomorrow", "Thu 2025-03-13"),
        ("next week", "Mon 2025-03-17 to Sun 2025-03-23"),
        ("next Friday", "Fri 2025-03-14"),
        ("in 3 days", "Sat 2025-03-15"),
    ],
)
def test_english(phrase: str, meaning: str) -> None:
    assert said(phrase) == meaning


@pytest.mark.parametrize(
    ("english", "phrases"),
    [
        ("yesterday", "어제 昨日 昨天 ayer gestern hier вчера ieri"),
        ("today", "오늘 今日 今天 hoy heute aujourd'hui"),
        ("2 days ago", "그저께 一昨日 前天 anteayer vorgestern avant-hier"),
        ("last week", "지난주 지난_주 先週 上周 上个星期 la_semana_pasada letzte_Woche la_semaine_dernière"),
        ("this week", "이번_주 今週 这周 esta_semana diese_Woche cette_semaine"),
        ("next week", "다음_주 来週 下周 nächste_Woche la_semaine_prochaine"),
        ("last month", "지난달 先月 上个月 el_mes_pasado letzten_Monat le_mois_dernier"),
        ("last year", "작년 去年 昨年 el_año_pasado letztes_Jahr l'année_dernière"),
        ("this year", "올해 今年 este_año dieses_Jahr cette_année"),
        ("last weekend", "지난_주말 先週末 上周末"),
        ("3 days ago", "3일_전 3日前 三天前 hace_3_días vor_drei_Tagen il_y_a_3_jours"),
        ("2 months ago", "2개월_전 2ヶ月前 两个月前 hace_dos_meses vor_zwei_Monaten il_y_a_deux_mois"),
        ("last 3 days", "지난_3일 最近3天"),
        ("March 2023", "2023년_3월 2023年3月 marzo_de_2023 im_März_2023 mars_2023"),
        ("2023-03-05", "2023년_3월_5일 2023年3月5日"),
        ("March", "3월 3月 三月 marzo März en_mars"),
        ("last night", "어젯밤 昨夜 昨晚 anoche letzte_Nacht"),
        ("yesterday evening", "어제_저녁 昨日の夕方 gestern_Abend hier_soir"),
        ("last Monday", "지난_월요일 el_lunes_pasado letzten_Montag lundi_dernier"),
        ("Friday last week", "上周五 先週の金曜日"),
        ("since Monday", "월요일부터 seit_Montag depuis_lundi desde_lunes"),
        ("since 2023", "2023년_이후 2023年以来 2023年以降"),
        ("from March to May", "3월부터_5월까지 从3月到5月 3月から5月まで"),
        ("recently", "최근 最近 recientemente kürzlich récemment"),
    ],
)
def test_other_languages_mean_the_same(english: str, phrases: str) -> None:
    for phrase in phrases.split():
        assert said(phrase.replace("_", " ")) == said(english), phrase


def test_a_range_that_began_last_year_begins_on_the_day_that_was_named() -> None:
    december = datetime(2026, 12, 10, tzinfo=UTC)
    timeframe = parse_timeframe("from 30 November to 5 January", now=december, zone=BERLIN)
    assert describe_timeframe(timeframe, BERLIN) == "Sun 2025-11-30 to Mon 2026-01-05"
    leap = datetime(2028, 12, 10, tzinfo=UTC)
    timeframe = parse_timeframe("from 29 February to 5 January", now=leap, zone=BERLIN)
    assert describe_timeframe(timeframe, BERLIN) == "Sun 2027-02-28 to Wed 2028-01-05"


def test_the_last_year_that_a_calendar_has() -> None:
    assert said("24 décembre 9999") == "Fri 9999-12-24"
    for phrase in ("31 décembre 9999", "9999-12-31", "0001-01-01 to 0001-01-01"):
        with pytest.raises(UnknownTime):
            parse_timeframe(phrase, now=NOW, zone=BERLIN)


def test_date_order_decides_only_what_is_open() -> None:
    assert said("3/4/2024") == "Mon 2024-03-04"
    assert said("3/4/2024", date_order="DMY") == "Wed 2024-04-03"
    assert said("2024-03-04", date_order="DMY") == "Mon 2024-03-04"


def test_a_week_may_begin_on_sunday() -> None:
    assert said("last week", week_start=6) == "Sun 2025-03-02 to Sat 2025-03-08"


def test_bounds_are_instants_of_the_local_day() -> None:
    seoul = parse_timeframe("yesterday", now=NOW, zone=ZoneInfo("Asia/Seoul"))
    assert seoul.start == datetime(2025, 3, 10, 15, tzinfo=UTC)
    assert seoul.end == datetime(2025, 3, 11, 15, tzinfo=UTC)
    assert seoul.start.tzinfo is UTC
    assert seoul.phrase == "yesterday"


def test_what_reaches_to_the_present_includes_it() -> None:
    for phrase in ("today", "last 7 days", "last 3 hours", "recently", "this year", "just now"):
        timeframe = parse_timeframe(phrase, now=NOW, zone=BERLIN)
        assert timeframe.start is not None
        assert timeframe.end is not None
        assert timeframe.start <= NOW < timeframe.end, phrase


class TestClockChanges:
    @pytest.mark.parametrize(
        ("zone", "day", "hours"),
        [
            (BERLIN, "2025-03-30", 23),
            (BERLIN, "2025-10-26", 25),
            (NEW_YORK, "2025-03-09", 23),
            (NEW_YORK, "2025-11-02", 25),
        ],
    )
    def test_a_day_is_midnight_to_midnight(self, zone: ZoneInfo, day: str, hours: int) -> None:
        named = parse_timeframe(day, now=NOW, zone=zone)
        assert named.start is not None
        assert named.end is not None
        assert named.end - named.start == timedelta(hours=hours)
        next_noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=zone) + timedelta(days=1)
        spoken = parse_timeframe("yesterday", now=next_noon, zone=zone)
        assert (spoken.start, spoken.end) == (named.start, named.end)
        assert describe_timeframe(spoken, zone).endswith(day)

    def test_hours_are_hours(self) -> None:
        after_the_change = datetime(2025, 3, 30, 4, 30, tzinfo=BERLIN)
        timeframe = parse_timeframe("last 3 hours", now=after_the_change, zone=BERLIN)
        assert timeframe.start == after_the_change.astimezone(UTC) - timedelta(hours=3)

    def test_a_week_with_a_change_in_it(self) -> None:
        week = parse_timeframe("last week", now=datetime(2025, 4, 2, tzinfo=UTC), zone=BERLIN)
        assert describe_timeframe(week, BERLIN) == "Mon 2025-03-24 to Sun 2025-03-30"


class TestNonsense:
    @pytest.mark.parametrize(
        "phrase",
        ["blah", "", "   ", "x" * 10_000, "word " * 2_000, "12", "the cache", "since", "2024-13-01", "February 30",
         "99999999999 days ago", "9999 years ago", "yesterday at 25:00", "between cats and dogs", "2025..2024"],
    )  # fmt: skip
    def test_is_refused_with_examples(self, phrase: str) -> None:
        with pytest.raises(UnknownTime) as raised:
            parse_timeframe(phrase, now=NOW, zone=BERLIN)
        assert "last week" in raised.value.advice
        assert len(str(raised.value)) < 500

    @given(phrase=st.text(alphabet="0123456789 /-.:tzw년월日月前agolst", max_size=16))
    def test_any_text_is_a_range_or_refused(self, phrase: str) -> None:
        try:
            timeframe = parse_timeframe(phrase + "0", now=NOW, zone=BERLIN)
        except UnknownTime:
            return
        if timeframe.start and timeframe.end:
            assert timeframe.start < timeframe.end


class TestFind:
    @pytest.mark.parametrize(
        ("query", "phrase"),
        [
            ("what did we decide last week about caching?", "last week"),
            ("what did we talk about yesterday evening", "yesterday evening"),
            ("what was last Friday's topic", "last Friday"),
            ("what happened in March", "in March"),
            ("what happened in may?", "in may"),
            ("what broke on March 5 in the server", "on March 5"),
            ("decisions since March 2023", "since March 2023"),
            ("what changed between March and May 2023", "between March and May 2023"),
            ("errors 3 days ago", "3 days ago"),
            ("what did I do in 2023?", "in 2023"),
            ("deploy on 2024-03-01 failed why", "on 2024-03-01"),
            ("what happened in the past 3 weeks?", "in the past 3 weeks"),
            ("지난주에 뭘 결정했지?", "지난주"),
            ("어제 저녁에 얘기한 서버", "어제 저녁"),
            ("昨日の会議", "昨日"),
            ("上周我们决定了什么", "上周"),
            ("三天前的错误", "三天前"),
            ("qué decidimos la semana pasada", "la semana pasada"),
            ("was haben wir gestern beschlossen", "gestern"),
            ("qu'avons-nous décidé la semaine dernière", "la semaine dernière"),
        ],
    )
    def test_the_phrase_in_a_question(self, query: str, phrase: str) -> None:
        found = find_timeframe(query, now=NOW, zone=BERLIN)
        assert found is not None
        assert found.phrase == phrase
        alone = parse_timeframe(phrase, now=NOW, zone=BERLIN)
        assert (found.start, found.end) == (alone.start, alone.end)

    @pytest.mark.parametrize(
        "query",
        [
            "",
            "when did she paint a sunrise?",
            "may I use the second version 2023 on port 2024?",
            "who may 5 users be",
            "march on",
            "on second thought",
            "how many in 2024 tests",
            "songs from the 90s",
            "the last item in the list",
            "backup-2024-03-01.tar.gz",
            "before lunch",
            "since we moved",
            "in production on windows this way",
            "wo ist hier der Server",
            "전체 목록",
            "what has she learned recently?",
            "최근에 배운 것",
            "plans for next week",
            "since next week",
            "yesterday we planned for last month",
            "x" * 100_000,
        ],
    )
    def test_nothing_when_it_is_not_certain(self, query: str) -> None:
        assert find_timeframe(query, now=NOW, zone=BERLIN) is None


def test_our_own_rules_need_no_heavy_import() -> None:
    program = (
        "import sys, datetime, zoneinfo\n"
        "from mindhold.text.timeframe import find_timeframe, parse_timeframe\n"
        "at = dict(now=datetime.datetime.now(datetime.UTC), zone=zoneinfo.ZoneInfo('UTC'))\n"
        "find_timeframe('what did we decide last week?', **at); parse_timeframe('지난주', **at)\n"
        "sys.exit('dateparser' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


class TestDescribe:
    def test_open_ends(self) -> None:
        moment = datetime(2025, 3, 11, 23, tzinfo=UTC)
        assert describe_timeframe(Timeframe(moment, None, ""), BERLIN) == "since Wed 2025-03-12"
        assert describe_timeframe(Timeframe(None, moment, ""), BERLIN) == "before Wed 2025-03-12"
        assert describe_timeframe(Timeframe(None, None, ""), BERLIN) == "any time"

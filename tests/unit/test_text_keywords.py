"""Keywords that a text gets by itself: telling, few, in any language, and the same for the same text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.model.lexemes import keyword_form
from mindhold.text.keywords import MOST_KEYWORDS, extract_keywords


def test_identifiers_and_names_come_first() -> None:
    found = extract_keywords("We moved billing to PostgreSQL after getUserName in src/app.py kept failing.")
    assert set(found[:3]) == {"PostgreSQL", "getUserName", "src/app.py"}


def test_no_stop_words_and_each_once_whatever_its_ending() -> None:
    assert extract_keywords("the cache and the caches and Cache") == ("cache",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("서버를 재시작했다", {"서버", "재시작"}),
        ("auth 모듈은 redis에 의존한다", {"auth", "모듈", "redis", "의존"}),
        ("Redis를 배포하는 서버", {"Redis", "배포", "서버"}),
        ("커넥션 풀 최대값은 20으로 결정", {"커넥션", "최대값", "결정"}),
        ("昨日サーバーを再起動しました", {"サーバー", "再起動"}),
        ("データベースの接続プールは最大20に設定する", {"データベース", "接続", "プール", "設定"}),
        ("我们决定使用数据库缓存", {"数据库", "缓存"}),
        ("支付服务在启动时因为数据库连接失败而崩溃", {"支付", "服务", "数据库", "连接", "失败", "崩溃"}),
        ("我們決定使用資料庫快取", {"資料庫", "快取"}),
        ("Die Rechnungsübersicht für März", {"Rechnungsübersicht", "März"}),
        ("решили использовать кэш", {"использовать", "кэш"}),
        ("We write C++ and C#.", {"C++", "C#"}),
        ("We write C++ and .NET.", {"C++", ".NET"}),
        ("ระบบล็อกอินใช้PostgreSQLเสมอ", {"PostgreSQL"}),
    ],
)
def test_any_language(text: str, expected: set[str]) -> None:
    assert expected <= set(extract_keywords(text))


@pytest.mark.parametrize(
    ("text", "common"),
    [
        ("Der Server läuft auf Port 8080 und verwendet PostgreSQL.", {"Der", "auf", "und"}),
        ("Le serveur est sur le port 8080 avec les données.", {"est", "sur", "avec", "les"}),
        ("الخادم يعمل على المنفذ 8080", {"على"}),
    ],
)
def test_no_common_words_of_other_languages(text: str, common: set[str]) -> None:
    found = set(extract_keywords(text))
    assert "8080" in found
    assert not common & found


def test_english_words_that_are_common_elsewhere_stay() -> None:
    assert {"die", "war"} <= set(extract_keywords("Many die in a war."))


@pytest.mark.parametrize(
    "text",
    [
        "ระบบล็อกอินล้มเหลวเมื่อรหัสผ่านหมดอายุต้องรีเซ็ตผ่านหน้าผู้ดูแลระบบเสมอ",
        "ខ្ញុំប្រើប្រព័ន្ធទិន្នន័យសម្រាប់គម្រោង",
    ],
)
def test_a_clause_without_spaces_is_no_keyword(text: str) -> None:
    assert extract_keywords(text) == ()


@pytest.mark.parametrize("text", ["우리는 그리고 하지만", "我们的是在", "the and of", "", "?! ..."])
def test_what_says_nothing_has_none(text: str) -> None:
    assert extract_keywords(text) == ()


def test_what_stands_for_a_secret_is_none() -> None:
    assert extract_keywords("The key [redacted:api-key] opens staging.") == ("staging", "opens", "key")


@given(st.text(max_size=300))
def test_few_distinct_and_from_the_text(text: str) -> None:
    found = extract_keywords(text)
    assert len(found) <= MOST_KEYWORDS
    assert len({keyword_form(word) for word in found}) == len(found)
    assert all(word in text for word in found)
    assert found == extract_keywords(text)

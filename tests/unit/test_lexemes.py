from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mindhold.model.lexemes import LONGEST_LEXEME, MOST_LEXEMES, lexemes, query_lexemes

MIXED = "Don't naïve Straße 서버를 東京 ภาษาไทย हिन्दी Привет ΜΆΪΟΣ العَرَبِيَّة \U0001f600 x\u0301 İstanbul 𠀀𰀀 v1.2 a_b"


@pytest.fixture(scope="module")
def index() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize = 'unicode61 remove_diacritics 0')")
    connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, 'instance')")
    yield connection
    connection.close()


def tokens_of(index: sqlite3.Connection, column: str) -> list[str]:
    index.execute("DELETE FROM t")
    index.execute("INSERT INTO t(rowid, x) VALUES (1, ?)", (column,))
    return [term for (term,) in index.execute("SELECT term FROM v ORDER BY doc, col, offset")]


class TestSurvivesTheIndex:
    @given(text=st.text(max_size=200))
    @example(text=MIXED)
    def test_every_lexeme_is_one_unchanged_token(self, index: sqlite3.Connection, text: str) -> None:
        found = lexemes(text)
        assert tokens_of(index, " ".join(found)) == found

    def test_every_character_of_unicode(self, index: sqlite3.Connection) -> None:
        points = [*range(0x40000), *range(0xE0000, 0xF0100), *range(sys.maxunicode - 100, sys.maxunicode + 1)]
        for start in range(0, len(points), 65536):
            found = lexemes(" ".join(map(chr, points[start : start + 65536])))
            assert tokens_of(index, " ".join(found)) == found

    @given(text=st.text(max_size=100))
    def test_a_query_looks_only_for_what_a_document_of_the_same_text_has(self, text: str) -> None:
        sought = query_lexemes(text)
        assert set(sought) <= set(lexemes(text))
        assert len(sought) == len(set(sought))

    @given(text=st.text(max_size=100))
    def test_lexemes_are_short_and_without_blanks(self, text: str) -> None:
        for lexeme in lexemes(text):
            assert lexeme
            assert len(lexeme) <= 2 * LONGEST_LEXEME
            assert not any(character.isspace() for character in lexeme)


def finds(query: str, document: str) -> bool:
    sought = query_lexemes(query)
    return bool(sought) and set(sought) <= set(lexemes(document))


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("user name", "call getUserName first"),
        ("getusername", "call getUserName first"),
        ("get_user_name", "call getUserName first"),
        ("user", "the user's choice"),
        ("OBrien", "O'Brien wrote"),
        ("cafe", "the Café"),
        ("café", "the cafe"),
        ("cafe\u0301", "the café"),
        ("strasse", "Straße"),
        ("smorrebrod", "smørrebrød"),
        ("ПРИВЕТ", "привет"),
        ("ёлка", "елка"),
        ("ΜΑΪΟΣ", "Μάιος"),
        ("مكتب", "مَكْتَب"),
        ("caching", "we cache it"),
        ("decisions", "a decision was made"),
        ("3.11", "Python 3.11 only"),
        ("1.2.3", "released v1.2.3 today"),
        ("v1.2", "released 1.2 today"),
        ("10:30", "meet at 10:30"),
        ("192.168.0.1", "host 192.168.0.1:8080"),
        ("1000000", "cost 1,000,000 won"),
        ("2024", "on 2024-03-01"),
        ("python", "python3"),
        ("lexemes.py", "see src/mindhold/model/lexemes.py"),
        ("mindhold", "C:\\code\\mindhold\\main.py"),
        ("example.com", "mail jane@example.com"),
        ("jane", "mail jane@example.com"),
        ("C++", "written in C++."),
        ("c#", "C# service"),
        ("ｆｕｌｌ", "full width"),
        ("٣", "3 items"),
        ("서버", "서버를 재시작했다"),
        ("물", "찬물을 마신다"),
        ("東京", "昨日東京に行った"),
        ("猫", "白い猫がいる"),
        ("カタカナ", "ｶﾀｶﾅの文"),
        ("缓存", "数据库缓存失效"),
        ("茶", "我喜欢喝茶"),
        ("server 重启", "server重启了"),
        ("ไทย", "ภาษาไทยง่าย"),
        ("हिन्दी", "हिन्दी में लिखा"),
    ],
)
def test_is_found_by(query: str, document: str) -> None:
    assert finds(query, document)


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("3.11", "number 311"),
        ("31.1", "version 3.11"),
        ("C++", "plan C"),
        ("हिन्दी", "हन्दू"),
        ("йод", "иод"),
        ("서울", "서버를 재시작했다"),
        ("caching", "catch"),
    ],
)
def test_is_not_found_by(query: str, document: str) -> None:
    assert not finds(query, document)


class TestDocument:
    def test_keeps_order_and_repetitions(self) -> None:
        assert lexemes("red fish blue fish") == ["red", "fish", "blue", "fish"]

    def test_contractions_become_one_word(self) -> None:
        assert lexemes("don't won’t it's") == ["dont", "wont", "it"]

    def test_short_words_are_not_stemmed(self) -> None:
        assert lexemes("gas bus") == ["gas", "bus"]

    def test_unspaced_scripts_give_characters_and_pairs(self) -> None:
        assert lexemes("数据库") == ["数", "数据", "据", "据库", "库"]

    def test_a_hash_stays_whole(self) -> None:
        assert lexemes("a1b2c3d4e5f6") == ["a1b2c3d4e5f6"]

    @pytest.mark.parametrize("junk", ["x" * 100_000, "Zm9vYmFy" * 20_000, "deadbeef" * 20_000])
    def test_junk_is_cut(self, junk: str) -> None:
        found = lexemes(junk)
        assert len(found) == 1
        assert len(found[0]) <= LONGEST_LEXEME

    def test_a_huge_text_is_bounded(self) -> None:
        assert len(lexemes("数据库缓存" * 200_000)) == MOST_LEXEMES

    def test_nothing(self) -> None:
        assert lexemes("") == lexemes("… !? \ud800 😀") == []

    def test_threads_agree(self) -> None:
        text = " ".join(f"running{chr(97 + n % 26)}{chr(97 + n // 26)}nesses jumping" for n in range(600))
        expected = lexemes(text)
        results: list[list[str]] = []
        threads = [threading.Thread(target=lambda: results.append(lexemes(text))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [expected] * 8


class TestQuery:
    def test_drops_stop_and_question_words(self) -> None:
        assert query_lexemes("What did we decide about the caching?") == ["decid", "cach"]

    def test_keeps_them_when_there_is_nothing_else(self) -> None:
        assert query_lexemes("who are they") == ["who", "are", "they"]

    def test_each_once(self) -> None:
        assert query_lexemes("cache caching caches") == ["cach"]

    def test_prefers_pairs_in_unspaced_scripts(self) -> None:
        assert query_lexemes("数据库") == ["数据", "据库"]
        assert query_lexemes("猫") == ["猫"]

    def test_drops_question_words_of_unspaced_scripts(self) -> None:
        assert query_lexemes("为什么缓存") == ["缓存"]
        assert query_lexemes("서버를 어떻게") == ["서버", "버를"]
        assert query_lexemes("什么") == ["什么"]

    def test_nothing(self) -> None:
        assert query_lexemes("") == query_lexemes("?!") == []

"""Which scope a text belongs to, and which tags stand in it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.model.scope import GLOBAL, Scope
from mindhold.projects.scopes import ScopeChoice, choose_scope
from mindhold.text.keywords import MOST_TAGS, hashtags

WHEN = datetime(2026, 11, 16, tzinfo=UTC)


def scope(name: str, *keywords: str, **more: Any) -> Scope:
    return Scope(name, WHEN, keywords=keywords, **more)


SCOPES = [
    scope(GLOBAL, "everything"),
    scope("ProjectAlpha", "Alpha", "Project A"),
    scope("旅行", "パリ"),
    scope("알파"),
    scope("C++"),
    scope("Straße"),
    scope("हिन्दी"),
    scope("Work"),
    scope("Payroll", "salary", parent="Work"),
    scope("Old", "legacy", active=False),
]


def where(text: str, *tags: str, active: str = GLOBAL) -> str:
    return choose_scope(text, tags, scopes=SCOPES, active=active).scope


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the ALPHA build", "ProjectAlpha"),
        ("about project a, again", "ProjectAlpha"),
        ("about project alphas", GLOBAL),
        ("the alphabet", GLOBAL),
        ("来月の旅行", "旅行"),
        ("パリは雨", "旅行"),
        ("알파에서 말했다", "알파"),
        ("in C++ at last", "C++"),
        ("in C, at last", GLOBAL),
        ("a c+ of a grade", GLOBAL),
        ("in der STRASSE", "Straße"),
        ("हिन्दी सीखना", "हिन्दी"),
        ("हिन्दीय", GLOBAL),
        ("at work", "Work"),
        ("the salary at work", "Payroll"),
        ("alpha at work", GLOBAL),
        ("a legacy of the old", GLOBAL),
        ("everything", GLOBAL),
        ("ｆｕｌｌ ｗｉｄｔｈ ａｌｐｈａ", "ProjectAlpha"),
        ("", GLOBAL),
    ],
)
def test_a_scope_is_spoken_of_by_whole_words(text: str, expected: str) -> None:
    assert where(text) == expected


@pytest.mark.parametrize("tag", ["project_alpha", "Project Alpha", "#projectalpha", "ALPHA", "project-a"])
def test_a_tag_names_a_scope_however_it_is_written(tag: str) -> None:
    assert where("nothing of it", tag) == "ProjectAlpha"
    assert where("nothing of it", f"{tag}s") == GLOBAL


def test_who_works_in_a_scope_has_chosen() -> None:
    assert choose_scope("alpha", (), scopes=SCOPES, active="Work") == ScopeChoice("Work", "the active scope")


def test_what_is_doubtful_stays_and_is_told() -> None:
    told = choose_scope("alpha in パリ", (), scopes=SCOPES, active=GLOBAL)
    assert told == ScopeChoice(GLOBAL, "it speaks of several scopes: ProjectAlpha, 旅行")
    assert choose_scope("alpha", (), scopes=SCOPES, active=GLOBAL).reason == "it speaks of 'Alpha'"
    assert choose_scope("nothing", (), scopes=SCOPES, active=GLOBAL).reason == ""


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_has_a_scope_that_there_is(text: str, tags: list[str]) -> None:
    assert choose_scope(text, tags, scopes=SCOPES, active=GLOBAL).scope in {
        one.name for one in SCOPES if one.active
    }


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("Remember this as #login.", ("login",)),
        ("#Login and #login and #LOGOUT", ("Login", "LOGOUT")),
        ("#project-alpha, #project_beta-", ("project-alpha", "project_beta")),
        ("(#one) [#two] “#three”", ("one", "two", "three")),
        ("#日本語 と #हिन्दी ＃広い", ("日本語", "हिन्दी", "広い")),
        ("see #123, issue #42 and colour #ff00aa or #0f0", ()),
        ("# Heading\n## Another\n#! /bin/sh", ()),
        ("https://example.org/#top and page#part and a=#b", ()),
        ("`#include <stdio.h>`\n```\n#define X\n```", ()),
        ("C# and F#", ()),
        ("&#39; is an apostrophe", ()),
    ],
)
def test_hashtags(text: str, tags: tuple[str, ...]) -> None:
    assert hashtags(text) == tags


@given(st.text())
def test_hashtags_of_any_text_are_few_and_bare(text: str) -> None:
    found = hashtags(text)
    assert len(found) <= MOST_TAGS
    assert all(tag and not tag.startswith("#") for tag in found)

"""Sameness: a rewording is the same; a number, name, date, path or "not" more or less never is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.text.similarity import (
    difference_kinds,
    replaces,
    same_in_other_order,
    same_statement,
)

SAME = [
    ("We use PostgreSQL for storage", "For storage we use PostgreSQL"),
    ("We use PostgreSQL for storage.", "we use postgres for storage"),
    ("The user prefers dark mode", "User prefers dark mode!"),
    ("The API doesn't support XML", "The API does not support XML"),
    ("Deploys run on Fridays", "Deploys run on Friday"),
    ("In production, logs go to S3", "Logs go to S3 in production"),
    ("The limit is 1,000 requests", "The limit is 1000 requests"),
    ("The database is in the config", "The db is in the configuration"),
    ("We are using Redis", "We use Redis"),
    ("The store keeps facts in postgresql", "The store keeps facts in PostgreSQL"),
    ("Redis runs on db-1. It is fast.", "redis runs on db-1. it is fast"),
    ("The limit is 512 MB", "The limit is 512 megabytes"),
    ("We meet at 10 AM", "We meet at 10 am"),
    ("사용자는 다크 모드를 선호한다", "사용자는 다크 모드를 선호한다."),
    ("用户喜欢深色模式", "用户喜欢深色模式。"),
    ("ユーザーは日本語を好む", "ユーザーは日本語を好む。"),
]
DIFFERENT = [
    ("number", "The billing service listens on port 8080", "The billing service listens on port 8081"),
    ("number", "Requires Python 3.11", "Requires Python 3.12"),
    ("number", "Retry three times", "Retry five times"),
    ("number", "The timeout is 30 s", "The timeout is 30 ms"),
    ("number", "CPU is at 10%", "CPU is at 10"),
    ("number", "x > 5", "x < 5"),
    ("number", "포트는 8080이다", "포트는 9090이다"),
    ("words", "The billing service listens on port 8080", "The auth service listens on port 8080"),
    ("words", "The staging server runs Debian", "The backup server runs Debian"),
    ("words", "One service uses Redis", "One team uses Redis"),
    ("name", "We use PostgreSQL for storage", "We use MySQL for storage"),
    ("name", "Alice reviews with Bob", "Alice reviews with Carol"),
    ("name", "call parse_config first", "call parse_args first"),
    ("name", "call getUser first", "call getOrder first"),
    ("name", "The guest password is swordfish", "The guest password is SwordFish"),
    ("name", "비밀번호는 swordfish이다", "비밀번호는 SwordFish이다"),
    ("name", "The uplink is 16 Mb per second", "The uplink is 16 MB per second"),
    ("name", "The disk is 5 m away", "The disk is 5 M away"),
    ("name", "Delete it with rm -r", "Delete it with rm -R"),
    ("name", "Search with grep -v ERROR", "Search with grep -V ERROR"),
    ("name", "Run `make Test`", "Run `make test`"),
    ("name", "The function returns None", "The function returns none"),
    ("name", "IT is down", "It is down"),
    ("name", "We move in May", "We move in may"),
    ("date", "Deploy on Friday", "Deploy on Monday"),
    ("date", "The release is in March", "The release is in April"),
    ("date", "Released 2024-05-01", "Released 2024-05-02"),
    ("date", "배포는 금요일 이다", "배포는 월요일 이다"),
    ("path", "Settings are in src/app/config.py", "Settings are in src/web/config.py"),
    ("path", "See https://example.org/a", "See https://example.org/b"),
    ("path", "Edit main.py", "Edit main.ts"),
    ("negation", "The API supports XML", "The API never supports XML"),
    ("negation", "The cache is shared", "The cache is not shared"),
    ("negation", "Coffee with sugar", "Coffee without sugar"),
    ("negation", "We use Redis", "We no longer use Redis"),
    ("negation", "The build isn't green", "The build is green"),
    ("negation", "설탕을 넣는다", "설탕을 안 넣는다"),
    ("negation", "이 API는 XML을 지원한다", "이 API는 XML을 지원하지 않는다"),
    ("negation", "我喜欢咖啡", "我不喜欢咖啡"),
    ("negation", "XMLを使う", "XMLを使わない"),
    ("antonym", "Enable the cache", "Disable the cache"),
    ("antonym", "Run lint before tests", "Run lint after tests"),
    ("antonym", "Always squash", "Never squash"),
    ("antonym", "Guests are allowed", "Guests are denied"),
    ("antonym", "The user likes tea", "The user dislikes tea"),
    ("order", "Billing depends on Auth", "Auth depends on Billing"),
    ("order", "We moved from Redis to Kafka", "We moved from Kafka to Redis"),
    ("order", "Alice manages Bob", "Bob manages Alice"),
    ("order", "Port 80 for web and 443 for api", "Port 443 for web and 80 for api"),
    ("order", "Prefer tabs over spaces", "Prefer spaces over tabs"),
    ("words", "We use Redis", "Do we use Redis?"),
    ("words", "The server was fast", "The server is fast"),
    ("words", "x != y holds", "x = y holds"),
    ("words", "The service uses Redis", "The services use Redis"),
]
REPLACES = [
    ("We no longer use MongoDB", "We use MongoDB"),
    ("The API no longer uses XML", "The API uses XML"),
    ("We don't use MongoDB anymore", "We use MongoDB"),
    ("The API now uses port 9090", "The API uses port 8080"),
    ("The API now listens on port 9090", "The API now listens on port 8080"),
    ("The default branch is now main", "The default branch is master"),
    ("We now use PostgreSQL for storage", "We use MongoDB for storage"),
    ("The billing owner is now Alice", "The billing owner is Bob"),
    ("Sam now lives in Berlin", "Sam lives in Paris"),
    ("The standup is now on Tuesday", "The standup is on Monday"),
    ("We switched from MongoDB to PostgreSQL", "We use MongoDB for storage"),
    ("We use PostgreSQL instead of MongoDB for storage", "We use MongoDB for storage"),
    ("We replaced Jenkins with Buildkite", "We use Jenkins"),
    ("빌링 서비스는 이제 9090 포트를 사용한다", "빌링 서비스는 8080 포트를 사용한다"),
    ("우리는 더 이상 몽고를 사용하지 않는다", "우리는 몽고를 사용한다"),
    ("服务现在使用9090端口", "服务使用8080端口"),
]
DOES_NOT_REPLACE = [
    ("We use PostgreSQL for storage", "We use MongoDB for storage"),
    ("We now use PostgreSQL", "We use tabs"),
    ("The API now uses OAuth", "The API uses port 8080"),
    ("The auth service now listens on port 9090", "The billing service listens on port 8080"),
    ("Ticket 5 is now closed", "Ticket 4 is closed"),
    ("We use Redis instead of MongoDB for caching", "We use MongoDB for storage"),
    ("We switched from MongoDB to PostgreSQL", "We use MongoDB backups on Friday"),
    ("They switched from MongoDB to PostgreSQL", "We use MongoDB"),
    ("Billing now depends on Kafka", "Billing depends on Redis"),
    ("The billing service is now slow", "The billing service is written in Go"),
    ("We no longer use MongoDB", "We use Redis"),
    ("The staging database is no longer shared", "The production database is shared"),
    ("Alice now reviews migrations", "Bob reviews migrations"),
    ("이제 배포는 월요일에 한다", "회의는 금요일에 한다"),
    ("The server is now up", "The server is in Frankfurt"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_a_rewording_is_the_same(a: str, b: str) -> None:
    assert difference_kinds(a, b) == frozenset()
    assert same_statement(a, b)
    assert same_statement(b, a)


@pytest.mark.parametrize(("kind", "a", "b"), DIFFERENT)
def test_a_difference_that_matters_is_named(kind: str, a: str, b: str) -> None:
    assert kind in difference_kinds(a, b)
    assert kind in difference_kinds(b, a)
    assert not same_statement(a, b)


@pytest.mark.parametrize(("new", "old"), REPLACES)
def test_an_explicit_update_replaces(new: str, old: str) -> None:
    assert replaces(new, old)
    assert not same_statement(new, old)


@pytest.mark.parametrize(("new", "old"), DOES_NOT_REPLACE)
def test_anything_less_does_not(new: str, old: str) -> None:
    assert not replaces(new, old)


WORDS = st.lists(
    st.sampled_from(
        "we use not PostgreSQL Redis port 8080 for storage Friday from to a.py now 않 不 enable disable ? , . %".split()
    )
).map(" ".join)


@given(st.one_of(WORDS, st.text()), st.one_of(WORDS, st.text()))
def test_sameness_is_symmetric_and_takes_any_text(a: str, b: str) -> None:
    assert same_statement(a, b) == same_statement(b, a)
    assert same_statement(a, a)
    assert difference_kinds(a, b) == difference_kinds(b, a)
    assert replaces(a, b) in (True, False)


@given(WORDS, st.integers(0, 10**6), st.integers(0, 10**6))
def test_another_number_is_never_the_same(text: str, one: int, two: int) -> None:
    assert same_statement(f"{text} {one}", f"{text} {two}") == (one == two)


REORDERED = [
    ("The staging port is 9090", "9090 is the staging port."),
    ("Our deploy tool is Helm", "Helm is our deploy tool"),
    ("The owner of billing is Alice Smith", "Alice Smith is the owner of billing"),
    ("Alice is Bob's manager", "Bob's manager is Alice"),
    ("We deploy on Fridays with Helm", "With Helm we deploy on Fridays"),
    ("We deploy on Fridays with Helm", "On Fridays we deploy with Helm"),
    ("We deploy on Fridays with Helm", "We deploy with Helm on Fridays"),
    ("Restart the worker if the queue is full", "If the queue is full restart the worker"),
]
OTHER_ORDER = [
    ("A depends on B", "B depends on A"),
    ("Alice manages Bob", "Bob manages Alice"),
    ("The manager of Alice is Bob", "Alice is the manager of Bob"),
    ("The manager of Alice is Bob", "The manager of Bob is Alice"),
    ("We migrated from MySQL to Postgres", "We migrated from Postgres to MySQL"),
    ("Tests run before deploys", "Deploys run before tests"),
    ("In staging Alice reviews with Bob", "In staging Bob reviews with Alice"),
    ("With Alice Bob deploys", "Alice deploys with Bob"),
    ("Cats are animals", "Animals are cats"),
    ("The primary is the replica", "The replica is the primary"),
    ("The staging port is 9090", "9091 is the staging port"),
    ("The staging port is not 9090", "9090 is the staging port"),
    ("The staging port is 9090, not 8080", "The staging port is 8080, not 9090"),
    ("8080 is for staging and 9090 is for production", "9090 is for staging and 8080 is for production"),
    ("The token is Abc", "abc is the token"),
    (
        "Use A in staging for caching with B in production",
        "Use A in production for caching with B in staging",
    ),
    ("", ""),
]


@pytest.mark.parametrize(("one", "other"), REORDERED)
def test_another_order_of_words_may_say_the_same(one: str, other: str) -> None:
    assert same_in_other_order(one, other)
    assert same_in_other_order(other, one)


@pytest.mark.parametrize(("one", "other"), OTHER_ORDER)
def test_another_order_of_words_may_say_something_else(one: str, other: str) -> None:
    assert not same_in_other_order(one, other)
    assert not same_in_other_order(other, one)


@given(st.text(), st.text())
def test_any_two_texts_can_be_compared_in_another_order(one: str, other: str) -> None:
    assert same_in_other_order(one, other) == same_in_other_order(other, one)

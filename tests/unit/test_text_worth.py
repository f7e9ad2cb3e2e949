"""What a text is worth by rules: specific, standing by itself, more than talk; English, Korean, and any other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.text.noise import CHATTER, REPEATED, rate_worth

WORTHY = [
    "Redis Sentinel 연결 실패 시 REDIS_PASSWORD 환경변수 누락을 먼저 확인할 것. NOAUTH 에러가 증거다.",
    "이 프로젝트는 Node.js 20을 쓴다",
    "커넥션 풀 최대값은 20으로 결정",
    "코드 주석은 한국어로 작성해 주세요",
    "auth 모듈은 redis에 의존한다",
    "The quay crane lifts 40 tonnes.",
    "This project uses PostgreSQL 16.",
    "We decided to use Kafka for events because ordering matters.",
    "I'll deploy v2.3 to staging on Friday",
    "Never commit directly to main",
    "Please write all documentation in British English",
    "going to production needs two approvals",
    "checking accounts are closed at year end",
    "Do you remember to rotate keys each month",
    "I'll always deploy on friday evenings from the main branch",
    "Let me know by e-mail before you deploy",
    "배포는 금요일에 하겠습니다",
    "한국어로 답해 주세요",
    "数据库端口是5432",
    "データベースはPostgreSQLです",
    "Die Anmeldung läuft über Keycloak.",
]
TALK = [
    "ok thanks!",
    "네 확인했습니다",
    "👍",
    "Let me check that for you.",
    "Okay, I'll look into it.",
    "Can you take a look?",
    "Looking into it now",
    "One moment, please",
    "바로 확인해볼게요",
    "확인해 보겠습니다",
    "그럼 진행하겠습니다",
    "잠시만 기다려 주세요",
]
POINTING = [
    "It works now.",
    "This is better.",
    "that one should be fixed",
    "They were removed yesterday",
    "이건 버그다",
    "그건 잘 된다",
    "それは動きます",
]


@pytest.mark.parametrize("text", WORTHY)
def test_what_is_worth_keeping(text: str) -> None:
    found = rate_worth(text)
    assert found.score >= 0.6
    assert not found.chatter
    assert not found.dangling


@pytest.mark.parametrize("text", TALK)
def test_talk_is_worth_little(text: str) -> None:
    found = rate_worth(text)
    assert (found.score, found.chatter) == (CHATTER, True)


def test_what_nobody_needs_to_judge() -> None:
    assert rate_worth("ok thanks!").noise
    assert not rate_worth("Let me check that for you.").noise, "somebody may know better"


@pytest.mark.parametrize("text", POINTING)
def test_what_points_at_something_unsaid_is_worth_less(text: str) -> None:
    found = rate_worth(text)
    assert found.dangling
    assert not found.chatter
    assert found.score < 0.5
    assert rate_worth(text, labels=("login",)).score > found.score, "a topic says what it is about"


def test_what_names_things_is_worth_more() -> None:
    vague, telling = (
        "The service runs somewhere",
        "The service runs on port 8080 of db-3.example.org since 2024-05-01",
    )
    assert rate_worth(telling).score > rate_worth(vague).score + 0.2
    assert rate_worth("`make test` runs everything").signs > rate_worth("the tests run everything").signs


def test_a_question_is_worth_less_than_its_answer() -> None:
    assert (
        rate_worth("Which port has the billing service?").score
        < rate_worth("Port 81 has the billing service.").score
    )


def test_what_is_known_already_is_worth_little() -> None:
    assert rate_worth(WORTHY[0], repeated=True).score == REPEATED


@given(st.text(max_size=300), st.booleans())
def test_any_text_has_a_score(text: str, repeated: bool) -> None:
    assert 0 <= rate_worth(text, repeated=repeated).score <= 1


@given(st.sampled_from(WORTHY), st.sampled_from(WORTHY))
def test_saying_more_is_never_worth_less(one: str, two: str) -> None:
    assert rate_worth(f"{one} {two}").score >= min(rate_worth(one).score, rate_worth(two).score)

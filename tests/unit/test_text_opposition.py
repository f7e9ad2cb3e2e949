"""Which statements deny each other, and which only look as if they did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mindhold.lifecycle.contradiction_detection import SURE, judge_by_rules
from mindhold.text.contradiction import StatementRelation, compare_statements

DOUBT = 0.4
DENIED = [
    ("The API listens on port 8080.", "The API listens on port 9090."),
    ("The default branch is main.", "The default branch is trunk."),
    ("We use tabs for indentation.", "We use spaces for indentation."),
    ("Dark mode is enabled by default.", "Dark mode is disabled by default."),
    ("The repository is public.", "The repository is private."),
    ("The project uses Node.js 20.", "The project uses Node.js 22."),
    ("The project requires Python 3.11.", "The project requires Python 3.12."),
    ("The request timeout is 30 seconds.", "The request timeout is 60 seconds."),
    ("The owner of the billing module is Mina.", "The owner of the billing module is Joon."),
    ("The staging server is hosted in Frankfurt.", "The staging server is hosted in Seoul."),
    ("We use Redis for sessions.", "We do not use Redis for sessions."),
    ("We use Redis for sessions.", "We no longer use Redis for sessions."),
    (
        "The connection pool has a maximum of 20 connections.",
        "The connection pool has a maximum of 50 connections.",
    ),
    ("The deadline is 5 May.", "The deadline is 12 May."),
    ("The release is due on Friday.", "The release is due on Monday."),
    ("The team prefers light themes.", "The team prefers dark themes."),
    ("Comments are written in Korean.", "Comments are not written in Korean."),
    ("The cache is always on.", "The cache is never on."),
    ("The backup runs at 02:00.", "The backup runs at 04:00."),
    ("auth-service port: 8001", "auth-service port: 8005"),
    ("MAX_RETRIES = 3", "MAX_RETRIES = 5"),
    ("My favourite editor is Vim.", "My favourite editor is Emacs."),
    ("The login page doesn't require a password.", "The login page requires a password."),
    ("Mina likes coffee.", "Mina dislikes coffee."),
    ("The job queue is stored in /var/lib/queue.", "The job queue is stored in /srv/queue."),
    ("We deploy with Docker.", "We switched from Docker to Podman."),
    ("The billing team has 5 engineers.", "The billing team has 7 engineers."),
    ("The config file is optional.", "The config file is required."),
    ("The API supports pagination.", "The API does not support pagination."),
    ("The invoice service is written in Go.", "The invoice service is not written in Go."),
    ("Deployments are automatic.", "Deployments are manual."),
    ("The gateway accepts anonymous calls.", "The gateway rejects anonymous calls."),
    ("We use npm.", "We use pnpm instead of npm."),
    ("The licence is MIT.", "The licence is Apache."),
    ("Dark mode is on by default.", "Dark mode is off by default."),
    ("Tracing is turned on in staging.", "Tracing is turned off in staging."),
    ("The release date is Monday.", "The release date is Thursday."),
    ("The release date is 5 March.", "The release date is 12 April."),
    ("The deadline is May 5.", "The deadline is May 12."),
]
DENIED_IN_KOREAN = [
    ("API는 8080 포트를 사용한다.", "API는 9090 포트를 사용한다."),
    ("기본 브랜치는 main이다.", "기본 브랜치는 trunk이다."),
    ("이 프로젝트는 Node.js 20을 쓴다.", "이 프로젝트는 Node.js 22를 쓴다."),
    ("세션 저장소로 Redis를 사용한다.", "세션 저장소로 Redis를 사용하지 않는다."),
    ("우리는 Redis를 사용한다.", "우리는 더 이상 Redis를 사용하지 않는다."),
    ("다크 모드는 기본으로 활성화되어 있다.", "다크 모드는 기본으로 비활성화되어 있다."),
    ("커넥션 풀 크기는 20이다.", "커넥션 풀 크기는 50이다."),
    ("코드 주석은 한국어로 작성한다.", "코드 주석은 한국어로 작성하지 않는다."),
    ("외부 접속은 허용된다.", "외부 접속은 금지된다."),
    ("로그인에는 비밀번호가 필요하다.", "로그인에는 비밀번호가 필요 없다."),
    ("패키지 관리는 npm을 사용한다.", "패키지 관리는 npm 대신 pnpm을 사용한다."),
    ("배포는 Docker로 관리한다.", "배포는 Docker에서 Podman으로 전환했다."),
    ("담당자는 미나이다.", "담당자는 준호이다."),
    ("타임아웃은 30초이다.", "타임아웃은 60초이다."),
    ("이 저장소는 공개되어 있다.", "이 저장소는 비공개되어 있다."),
    ("테스트 서버가 있다.", "테스트 서버가 없다."),
    ("결제 모듈은 재시도를 한다.", "결제 모듈은 재시도를 안 한다."),
    ("팀은 5명이다.", "팀은 7명이다."),
    ("배포는 금요일에 한다.", "배포는 금요일에 하지 않는다."),
    ("테스트는 네트워크를 쓴다.", "테스트는 네트워크를 쓰지 않는다."),
    ("미나는 고기를 먹는다.", "미나는 고기를 먹지 않는다."),
    ("출시일은 3월 5일이다.", "출시일은 4월 12일이다."),
    ("출시일은 3월 5일이다.", "출시일은 3월 12일이다."),
    ("이 저장소는 공개되어 있다.", "이 저장소는 비공개이다."),
    ("이 저장소는 공개되어 있다.", "이 저장소는 공개되어 있지 않다."),
]
COMPATIBLE = [
    ("Service alpha listens on port 8001.", "Service beta listens on port 8002."),
    ("The auth service listens on port 8001.", "The billing service listens on port 8002."),
    ("auth-service port: 8001", "billing-service port: 8002"),
    ("svc-01 runs on port 9001", "svc-02 runs on port 9002"),
    ("The port of auth is 8001.", "The port of billing is 8002."),
    ("Port 8001 belongs to auth.", "Port 8002 belongs to auth."),
    ("The timeout is 30 seconds in staging.", "The timeout is 60 seconds in production."),
    ("We use Redis for caching.", "We use Redis for sessions."),
    ("We use Redis for caching.", "We don't use Redis for sessions."),
    ("The database port was 5432 until May.", "The database port is 5433."),
    ("The port used to be 5432.", "The port is 5433."),
    ("We use PostgreSQL.", "We use PostgreSQL 16 with pgvector for storage."),
    ("Our stack is Redis, Kafka and PostgreSQL.", "Our stack is Redis, Kafka, PostgreSQL and MongoDB."),
    ("We support Python 3.11.", "We support Python 3.12."),
    ("Ticket 4 is closed.", "Ticket 5 is closed."),
    ("See ticket 4 for details.", "See ticket 5 for details."),
    ("We deployed version 2.1 on Monday.", "We deployed version 2.2 on Tuesday."),
    ("We deployed version 2.1.", "We deployed version 2.2."),
    ("Mina bought 3 apples.", "Mina bought 5 apples."),
    ("Step 1 is to build the image.", "Step 2 is to push the image."),
    ("Mina likes coffee.", "Joon dislikes coffee."),
    ("The dev database is on port 5432.", "The prod database is on port 5433."),
    ("The upload limit is 10 MB.", "The download limit is 20 MB."),
    ("The server may restart at night.", "The server may not restart at night."),
    ("Some tests are slow.", "Some tests are not slow."),
    ("Deploys take 5 minutes.", "Deploys take 300 seconds."),
    ("The API returns 404 for missing users.", "The API returns 409 for duplicate users."),
    ("If the build fails, retry 3 times.", "If the deploy fails, retry 5 times."),
    ("Mina speaks Korean.", "Mina speaks English."),
    ("The API supports JSON.", "The API supports XML."),
    ("Use pytest for unit tests.", "Use playwright for browser tests."),
    ("The 2023 report is in Drive.", "The 2024 report is in Drive."),
    ("Version 1.2 was released in May.", "Version 1.3 was released in June."),
    ("The build takes about 5 minutes.", "The build takes about 6 minutes."),
    ("The invoice job runs every Monday.", "The invoice job runs every Friday."),
    ("Host a1 has 16 GB of memory.", "Host a2 has 32 GB of memory."),
    ("It listens on port 80.", "It listens on port 443."),
    ("Error E101 means the disk is full.", "Error E102 means the disk is not full."),
    ("We will use Redis.", "We use Redis."),
    ("The frontend is enabled for beta users.", "The frontend is disabled for guests."),
    ("Read the file before the lock is taken.", "Write the file after the lock is taken."),
    ("The cat is on the mat.", "The cat is black."),
    ("We don't always deploy on Friday.", "We deploy on Friday."),
    ("Not only Redis is used.", "Redis is used."),
    (
        "The primary region is eu-west-1 for customers in Europe.",
        "The primary region is us-east-1 for customers in America.",
    ),
    ("Meeting with Mina at 10:00.", "Meeting with Joon at 11:00."),
    ("Nginx listens on port 80.", "Nginx listens on port 443."),
    ("The first deploy failed.", "The second deploy succeeded."),
    ("We use PostgreSQL for storage.", "We use MySQL for analytics."),
    ("The API listens on ports 80 and 443.", "The API listens on ports 80, 443 and 8080."),
    ("The office is closed on Sunday.", "The office is open on Monday."),
    ("Team A prefers tabs.", "Team B prefers spaces."),
    ("Chapter 3 explains locks.", "Chapter 4 explains locks."),
    ("Mina said that the cache is slow.", "The cache is slow."),
    ("Builds are slow on Windows.", "Builds are fast on Linux."),
    ("At least 3 reviewers are needed.", "At least 2 reviewers are needed."),
    ("The API is fast.", "The API is fast and written in Go."),
    ("", "The port is 80."),
    ("...", "!!!"),
    # The sentence that names the thing differs.
    (
        "The auth service is written in Go. The port is 8080.",
        "The billing service is written in Go. The port is 9090.",
    ),
    (
        "Staging environment notes:\nThe replica count is 1.",
        "Production environment notes:\nThe replica count is 3.",
    ),
    ("Experiment with batch size 32. Accuracy is 0.81.", "Experiment with batch size 64. Accuracy is 0.84."),
    ("Alice's setup. The editor is Vim.", "Bob's setup. The editor is Emacs."),
    (
        "User asked about flights to Paris. The budget is 500 euros.",
        "User asked about hotels in Rome. The budget is 900 euros.",
    ),
    (
        "We looked at service A. Caching is enabled.",
        "We looked at service B. Caching is disabled.",
    ),
    ("Billing runs in Seoul. The request timeout is 30 seconds.", "The request timeout is 60 seconds."),
    # The same in other units, or perhaps so; and what there may be several of.
    ("The file is 2048 KB.", "The file is 2 MB."),
    ("The limit is 1000 requests.", "The limit is 1k requests."),
    ("The job runs at 02:00 UTC.", "The job runs at 11:00 KST."),
    ("The road is 5 km long.", "The road is 3.1 miles long."),
    ("Tests run on Python 3.11.", "Tests run on Python 3.12."),
    ("CI runs on ubuntu-22.04.", "CI runs on windows-2022."),
    ("The API returns 200.", "The API returns 404."),
    ("The invoice is for 300 dollars.", "The invoice is for 450 dollars."),
    ("The order total is 30 dollars.", "The order total is 45 dollars."),
]
COMPATIBLE_IN_KOREAN = [
    ("인증 서비스는 8001 포트를 사용한다.", "결제 서비스는 8002 포트를 사용한다."),
    ("데이터베이스 포트는 5월까지 5432였다.", "데이터베이스 포트는 5433이다."),
    ("예전에는 포트가 5432였다.", "포트는 5433이다."),
    ("캐시에는 Redis를 사용한다.", "세션에는 Redis를 사용하지 않는다."),
    ("PostgreSQL을 사용한다.", "PostgreSQL 16을 pgvector와 함께 사용한다."),
    ("이슈 4번은 닫혔다.", "이슈 5번은 닫혔다."),
    ("월요일에 2.1 버전을 배포했다.", "화요일에 2.2 버전을 배포했다."),
    ("미나는 커피를 좋아한다.", "준호는 커피를 싫어한다."),
    ("스테이징 타임아웃은 30초이다.", "운영 타임아웃은 60초이다."),
    ("일부 테스트는 느리다.", "일부 테스트는 느리지 않다."),
    ("서버 a1의 메모리는 16GB이다.", "서버 a2의 메모리는 32GB이다."),
    ("빌드는 약 5분 걸린다.", "빌드는 약 6분 걸린다."),
    ("미나는 사과 3개를 샀다.", "미나는 사과 5개를 샀다."),
    ("1단계는 이미지를 빌드하는 것이다.", "2단계는 이미지를 올리는 것이다."),
    ("API는 JSON을 지원한다.", "API는 XML을 지원한다."),
    (
        "auth 서비스는 Go로 작성되었다. 포트는 8080이다.",
        "billing 서비스는 Go로 작성되었다. 포트는 9090이다.",
    ),
    ("인증 서비스 설정. 포트는 8080이다.", "결제 서비스 설정. 포트는 9090이다."),
    ("타임아웃은 5분이다.", "타임아웃은 300초이다."),
    ("테스트는 Python 3.11에서 실행한다.", "테스트는 Python 3.12에서 실행한다."),
    ("송장 금액은 300달러이다.", "송장 금액은 450달러이다."),
]
DOUBTED = [
    ("The server may restart at night.", "The server may not restart at night."),
    ("Some tests are slow.", "Some tests are not slow."),
    ("We use PostgreSQL for storage.", "We use MySQL for storage."),
    ("The build takes about 5 minutes.", "The build takes about 6 minutes."),
    ("We use pnpm instead of npm.", "We use npm."),
    ("일부 테스트는 느리다.", "일부 테스트는 느리지 않다."),
    # There may be several: days of release, versions that are needed.
    ("The release happens on Monday.", "The release happens on Thursday."),
    ("The release happens on 5 May.", "The release happens on 12 May."),
    ("Python 3.11 is required.", "Python 3.13 is required."),
    ("배포는 금요일에 한다.", "배포는 월요일에 한다."),
    ("배포는 3월에 한다.", "배포는 4월에 한다."),
    ("배포는 금요일에 했다.", "배포는 금요일에 하지 않는다."),
]
# Of different things, people, places or times, or the same day in other words.
NOT_EVEN_DOUBTED = [
    ("The web release happens on Monday.", "The mobile release happens on Thursday."),
    ("The release happened on Monday.", "The release happened on Thursday."),
    ("The release date of alpha is 5 March.", "The release date of beta is 12 April."),
    ("The release date was 5 March.", "The release date is 12 April."),
    ("The release date is Friday.", "The release date is 5 March."),
    ("The deadline is tomorrow.", "The deadline is Friday."),
    ("Python 3.11 is required.", "Node 22 is required."),
    ("Python 3.11 is supported.", "Python 3.13 is supported."),
    ("Python 3.11 was required.", "Python 3.13 is required."),
    ("Python 3.11 is required in staging.", "Python 3.13 is required in production."),
    ("Port 8001 is required.", "Port 8002 is required."),
    ("Ticket 4 is required.", "Ticket 5 is required."),
    ("Dark mode is on by default.", "Compact mode is off by default."),
    ("Dark mode is on in staging.", "Dark mode is off in production."),
    ("Dark mode is on for Mina.", "Dark mode is off for Joon."),
    ("Dark mode was on by default.", "Dark mode is off by default."),
    ("The cup is on the table.", "The cup is off the table."),
    ("스테이징 배포는 금요일에 한다.", "운영 배포는 금요일에 하지 않는다."),
    ("미나는 금요일에 운동을 한다.", "준호는 금요일에 운동을 하지 않는다."),
    ("예전에는 배포를 금요일에 했다.", "배포를 금요일에 하지 않는다."),
    ("알파 출시일은 3월 5일이다.", "베타 출시일은 4월 12일이다."),
    ("원래 출시일은 3월 5일이었다.", "출시일은 4월 12일이다."),
    ("출시일은 3월 5일이다.", "출시일은 2026년 3월 5일이다."),
    ("출시일은 3월 5일이다.", "출시일은 금요일이다."),
    ("웹 저장소는 공개되어 있다.", "앱 저장소는 비공개이다."),
]
MENDED = [
    (
        "The importer fails with UnicodeDecodeError on empty CSV lines.",
        "To fix the importer's UnicodeDecodeError on CSV lines, strip empty lines before decoding.",
    ),
    (
        "KeyError: user_id in session middleware.",
        "We fixed KeyError: user_id in session middleware by defaulting to anonymous.",
    ),
    ("로그인 API가 500 오류를 반환한다.", "로그인 API 500 오류는 예외 처리를 추가해서 수정했다."),
]


@pytest.mark.parametrize(("old", "new"), [*DENIED, *DENIED_IN_KOREAN])
def test_what_is_denied_is_surely_denied(old: str, new: str) -> None:
    assert judge_by_rules(old, new).contradiction >= SURE


@pytest.mark.parametrize(("old", "new"), [*COMPATIBLE, *COMPATIBLE_IN_KOREAN])
def test_what_can_both_be_true_is_never_surely_denied(old: str, new: str) -> None:
    for one, two in ((old, new), (new, old)):
        assert judge_by_rules(one, two).contradiction < SURE, compare_statements(one, two)


@pytest.mark.parametrize(("old", "new"), DOUBTED)
def test_doubt_is_told_as_doubt(old: str, new: str) -> None:
    assert DOUBT <= judge_by_rules(old, new).contradiction < SURE


@pytest.mark.parametrize(("old", "new"), NOT_EVEN_DOUBTED)
def test_near_misses_are_not_even_doubted(old: str, new: str) -> None:
    for one, two in ((old, new), (new, old)):
        assert judge_by_rules(one, two).contradiction < DOUBT, compare_statements(one, two)


@pytest.mark.parametrize(("error", "fix"), MENDED)
def test_an_error_and_its_fix_are_surely_no_contradiction(error: str, fix: str) -> None:
    assert judge_by_rules(error, fix).neutral >= SURE


def test_that_a_failure_is_over_still_denies_it() -> None:
    old = "The importer fails on empty lines."
    assert judge_by_rules(old, "The importer no longer fails on empty lines.").contradiction >= SURE


def test_forty_services_on_forty_ports_are_forty_facts() -> None:
    """And surely so: none of the pairs is left for a model or a person."""
    english = [f"The {name} service listens on port {8000 + place}." for place, name in enumerate(NAMES)]
    korean = [f"{name} 서비스는 {8000 + place} 포트를 사용한다." for place, name in enumerate(NAMES)]
    for facts in (english, korean):
        for place, one in enumerate(facts):
            for other in facts[:place]:
                assert judge_by_rules(other, one).neutral >= SURE, (other, one)


NAMES = [f"{first}-{second}" for first in ("auth", "mail", "cart", "feed") for second in "abcdefghij"]


def test_the_same_in_other_units_is_the_same() -> None:
    assert (
        compare_statements("Deploys take 5 minutes.", "Deploys take 300 seconds.").relation
        is StatementRelation.SAME
    )
    for one, two in (("2 GB", "2000 MB"), ("2 GB", "2048 MB")):
        assert judge_by_rules(f"The limit is {one}.", f"The limit is {two}.").entailment >= SURE
    assert judge_by_rules("타임아웃은 5분이다.", "타임아웃은 300초이다.").entailment >= SURE


def test_other_amounts_in_other_units_are_told_apart() -> None:
    assert judge_by_rules("The timeout is 5 minutes.", "The timeout is 30 seconds.").contradiction >= SURE
    assert judge_by_rules("The timeout is 5 minutes.", "The timeout is 5 hours.").contradiction >= SURE
    assert judge_by_rules("타임아웃은 5분이다.", "타임아웃은 30초이다.").contradiction >= SURE


def test_of_several_sentences_all_others_must_be_shared() -> None:
    old = "The API is written in Go. The request timeout is 30 seconds."
    assert judge_by_rules(old, old.replace("30", "60")).contradiction >= SURE
    assert (
        judge_by_rules(old, "The request timeout is 60 seconds. The API is written in Go.").contradiction
        >= SURE
    )
    assert judge_by_rules("Notes.\n포트는 8080이다.", "Notes.\n포트는 9090이다.").contradiction >= SURE
    assert DOUBT <= judge_by_rules(old, "The request timeout is 60 seconds.").contradiction < SURE
    assert (
        judge_by_rules(old, "The API is written in Go. It times out after 60 seconds.").contradiction < SURE
    )


def test_texts_that_say_many_things_are_left_alone() -> None:
    long = "The port is 5432. " * 200
    assert judge_by_rules(long, long.replace("5432", "5433")).contradiction < SURE


@given(some.text(max_size=200), some.text(max_size=200))
def test_any_text_is_judged(old: str, new: str) -> None:
    one = judge_by_rules(old, new)
    assert abs(one.entailment + one.neutral + one.contradiction - 1) < 1e-9


@given(some.text(max_size=200))
def test_no_text_denies_itself(text: str) -> None:
    assert judge_by_rules(text, text).contradiction < SURE

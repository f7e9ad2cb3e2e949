"""Whether a text says how the failure of another was resolved: the very failure, and a fix that was made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.text.failure_resolution import resolves, says_how_resolved

RESOLVES = [
    (
        "ECONNREFUSED at startup of the payment service was fixed by starting redis before it.",
        "The payment service fails with ECONNREFUSED at startup.",
    ),
    (
        "Redis Sentinel NOAUTH error resolved: set REDIS_PASSWORD in the environment.",
        "Redis Sentinel connection fails with NOAUTH.",
    ),
    (
        "The login page's 401 after token refresh was solved by syncing the clocks.",
        "The login page returns 401 after token refresh.",
    ),
    (
        "Deploys of checkout hang on the migration step. Fixed by raising lock_timeout.",
        "Deploys of checkout hang on the migration step.",
    ),
    (
        "The flaky test test_upload in CI was fixed by seeding the clock.",
        "The test test_upload is flaky in CI.",
    ),
    ("pg local connection failure: fixed by ssl:false", "pg fails on local connection"),
    (
        "The worker hangs on large uploads. Solution: raise the body limit.",
        "The worker hangs on large uploads.",
    ),
    ("Fixed ECONNREFUSED on Redis by opening the port.", "Build fails with ECONNREFUSED on Redis."),
    (
        "Payment job KeyError: 'amount' fixed by a default.",
        "Payment job crashes with KeyError: 'amount'.",
    ),
    ("결제 서버 연결 실패는 REDIS_PASSWORD를 설정하여 해결했다", "결제 서버 연결이 실패한다"),
    ("支付服务数据库连接失败，已解决：增加连接池", "支付服务数据库连接失败"),
    ("決済サーバーの接続エラーは環境変数を設定して解決した", "決済サーバーで接続エラーが発生する"),
    (
        "To fix the importer's UnicodeDecodeError on CSV lines, strip empty lines before decoding",
        "The importer fails with UnicodeDecodeError on empty CSV lines",
    ),
    (
        "Solved the payments API timeout in the nightly job by raising the limit to two minutes",
        "TimeoutError: the payments API times out after 30 seconds in the nightly job",
    ),
    (
        "Fixed the deploy script permission denied on /var/lib/app by chown to the deploy user",
        'Deploy script exits with "permission denied" on /var/lib/app',
    ),
    (
        "The npm install ERESOLVE failure is solved with --legacy-peer-deps",
        "npm install fails with ERESOLVE on node 20",
    ),
    (
        "We fixed KeyError: user_id in session middleware by defaulting to anonymous",
        "KeyError: user_id in session middleware",
    ),
    (
        "Kafka consumer lag after a rebalance is resolved by setting static membership",
        "Kafka consumer lag grows over 1 million after a rebalance",
    ),
    (
        "Login page blank screen in Safari 17: adding structuredClone polyfill fixed it",
        "Login page shows a blank screen in Safari 17",
    ),
    (
        "Adding a polyfill fixed the blank screen of the login page in Safari 17.",
        "Login page shows a blank screen in Safari 17",
    ),
    (
        "Workaround for flaky test test_upload in CI: seed the clock.",
        "The test test_upload is flaky in CI.",
    ),
    (
        "NullPointerException in OrderMapper on missing address was fixed by checking for null",
        "NullPointerException in OrderMapper on missing address",
    ),
    (
        "ECONNREFUSED of the worker on port 6379 is resolved by starting redis",
        "The worker fails with ECONNREFUSED on port 6379",
    ),
    ("로그인 API 500 오류는 세션 검사를 추가해서 수정했다", "로그인 API가 500 오류를 반환한다"),
    ("로그인 API 500 오류는 세션 검사를 추가하면 해결된다", "로그인 API가 500 오류를 반환한다"),
    ("결제 배치 TimeoutError는 제한 시간을 늘려서 고쳤다", "결제 배치에서 TimeoutError가 발생한다"),
]
DOES_NOT = [
    (
        "The auth service timed out on deploy; fixed by raising the limit.",
        "The billing service times out on deploy.",
    ),
    (
        "ECONNREFUSED of the auth service was fixed by starting redis.",
        "The payment service fails with ECONNREFUSED.",
    ),
    (
        "The login page returns 403 after token refresh; fixed by a new scope.",
        "The login page returns 401 after token refresh.",
    ),
    (
        "The payment service still fails with ECONNREFUSED at startup, not fixed yet.",
        "The payment service fails with ECONNREFUSED at startup.",
    ),
    (
        "The payment service fails with ECONNREFUSED at startup.",
        "The payment service fails with ECONNREFUSED at startup under load.",
    ),
    (
        "The payment service must be fixed: it fails with ECONNREFUSED at startup",
        "The payment service fails with ECONNREFUSED at startup.",
    ),
    ("Could not resolve host github.com in CI", "Could not reach host github.com in CI"),
    ("The build was fixed by clearing the cache.", "The build fails."),
    (
        "KeyError in parse_args was resolved by a default value.",
        "KeyError in parse_config when the file is empty.",
    ),
    (
        "The deploy to staging crashed with exit code 137; resolved by more memory.",
        "The deploy to production crashes with exit code 137.",
    ),
    ("db schema migration failure fixed by a lock.", "ui schema migration fails."),
    ("결제 서버 연결 실패가 아직 해결되지 않았다", "결제 서버 연결이 실패한다"),
    ("인증 서버 연결 실패는 REDIS_PASSWORD를 설정하여 해결했다", "결제 서버 연결이 실패한다"),
    ("支付服务数据库连接失败，尚未解决", "支付服务数据库连接失败"),
    *(
        (new, "The worker hangs on large uploads.")
        for new in (
            "The worker hangs on large uploads; a solution is needed.",
            "The worker hangs on large uploads. We need a workaround.",
            "Looking for a solution: the worker hangs on large uploads.",
            "The worker hangs on large uploads - Kim claims it is fixed but it came back.",
            "Who fixed the worker hangs on large uploads?",
            "Fixed typo in docs; the worker hangs on large uploads remains.",
            "The worker hangs on large uploads. Fixed the logging of it so we see more.",
        )
    ),
    ("워커가 큰 업로드에서 멈추는 문제 해결 방법 조사 중.", "워커가 큰 업로드에서 멈춘다."),
    ("워커가 큰 업로드에서 멈추는 현상의 해결책이 필요하다.", "워커가 큰 업로드에서 멈춘다."),
    ("Fixed: login fails with 500 in Chrome, cleared the cache.", "Login fails with 500 in Safari."),
    (
        "Payment job KeyError: 'currency' fixed by a default.",
        "Payment job crashes with KeyError: 'amount'.",
    ),
    (
        'Docker build "no space left on device": run docker system prune.',
        "Docker build fails: no space left on device",
    ),
    ("The Docker build was fixed by installing curl.", "Docker build fails: no space left on device"),
    *(
        (new, "The importer fails with UnicodeDecodeError on empty CSV lines")
        for new in (
            "To fix the exporter's UnicodeDecodeError on empty CSV lines, strip them.",
            "To fix the importer's UnicodeDecodeError on empty CSV lines, we meet on Monday.",
            "To fix the importer's UnicodeDecodeError on empty CSV lines, ask the platform team.",
            "Workaround for the importer's UnicodeDecodeError on empty CSV lines: none known.",
            "Fixed the importer's documentation by naming UnicodeDecodeError and empty CSV lines.",
            "Fixed UnicodeDecodeError by another codec.",
            "Solved the importer's UnicodeDecodeError on JSON lines by another codec.",
        )
    ),
    (
        "The npm install ERESOLVE failure on node 18 is solved with --legacy-peer-deps",
        "npm install fails with ERESOLVE on node 20",
    ),
    (
        "The login page 401 after a password change was fixed by a new scope.",
        "The login page returns 401 after token refresh.",
    ),
    (
        "Login page blank screen in Safari 9: adding a polyfill fixed it",
        "Login page shows a blank screen in Safari 8",
    ),
    (
        "Kafka consumer lag is resolved by more consumers",
        "Kafka consumer lag grows after a rebalance in Oslo",
    ),
    *(
        (new, "The payments API times out in the nightly job")
        for new in (
            "We think we solved the payments API timeout in the nightly job by retries",
            "Kim was asked whether she solved the payments API timeout in the nightly job",
            "The nightly job of the payments API is resolved by name, not by address",
            "Retries have not fixed the payments API timeout in the nightly job",
        )
    ),
    (
        "The staging database uses a fixed connection pool on port 5433",
        "The staging database connection pool on port 5433 fails",
    ),
    (
        "Fixed the login page by adding a blank screen test for Safari 17",
        "Login page shows a blank screen in Safari 17",
    ),
    (
        "To resolve the host name in CI, set the DNS server.",
        "CI fails to resolve the host name of the DNS server",
    ),
    ("로그인 API 500 오류는 다음 주에 수정하여 배포할 계획이다", "로그인 API가 500 오류를 반환한다"),
    ("주문 API 500 오류는 세션 검사를 추가해서 수정했다", "로그인 API가 500 오류를 반환한다"),
    ("로그인 API 500 오류 메시지를 수정했다", "로그인 API가 500 오류를 반환한다"),
]


@pytest.mark.parametrize(("new", "old"), RESOLVES)
def test_the_same_failure_and_its_fix(new: str, old: str) -> None:
    assert resolves(new, old)
    assert not resolves(old, new)


@pytest.mark.parametrize(("new", "old"), DOES_NOT)
def test_anything_less_does_not(new: str, old: str) -> None:
    assert not resolves(new, old)


@pytest.mark.parametrize("number", range(5))
def test_forty_errors_are_forty(number: int) -> None:
    old = f"Service {number:02} fails with E10{number} on port {8000 + number}."
    new = f"Service {number + 1:02} failed with E10{number + 1} on port {8001 + number}; fixed by a restart."
    assert not resolves(new, old)


@given(st.text(max_size=120), st.text(max_size=120))
def test_any_text(new: str, old: str) -> None:
    assert resolves(new, old) in (True, False)
    assert not resolves(old, old)
    assert says_how_resolved(new) in (True, False)

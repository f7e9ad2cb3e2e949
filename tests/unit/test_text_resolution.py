"""Whether a text says how the failure of another was resolved: the very failure, and a fix that was made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.engine.text.resolution import resolves, says_how_resolved

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
    ("결제 서버 연결 실패는 REDIS_PASSWORD를 설정하여 해결했다", "결제 서버 연결이 실패한다"),
    ("支付服务数据库连接失败，已解决：增加连接池", "支付服务数据库连接失败"),
    ("決済サーバーの接続エラーは環境変数を設定して解決した", "決済サーバーで接続エラーが発生する"),
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

"""Redaction: what must go, what must stay, and that nothing of a secret is left."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.text.redaction import RedactionFinding, redact, redact_metadata

# Secrets are put together here, so that no scanner takes this file for a leak.
MIXED = "aB3" + "dE5fG7hI9" + "jK1lM3nO5pQ7rS9tU1vW3xY5z"
HEX32 = "0f1e2d3c" + "4b5a6978" * 3
PASSWORD = "hunter" + "2xyz"
EMAIL = "alice" + "@" + "example.org"


def _basic(pair: str) -> str:
    return base64.b64encode(pair.encode()).decode()


def _jwt() -> str:
    return (
        "ey"
        + "J"
        + "hbGciOiJIUzI1NiJ9"
        + ".ey"
        + "J"
        + "zdWIiOiIxMjM0NTY3ODkwIn0"
        + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
    )


# kind, text, the part that must be gone
POSITIVES: list[tuple[str, str, str]] = [
    (kind, f"{before}{secret}{after}", secret)
    for kind, before, secret, after in [
        (
            "private-key",
            "key:\n",
            "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE" + MIXED + "\n-----END RSA " + "PRIVATE KEY-----",
            "\nend",
        ),
        ("private-key", "", "-----BEGIN OPENSSH " + "PRIVATE KEY-----\n" + "b3BlbnNzaC1r" * 6, ""),
        ("aws-key", "id is ", "AK" + "IA" + "IOSFODNN7ABCDEFG", " here"),
        ("aws-key", "", "AS" + "IA" + "Y34FZKBOKMUTVV7A", ""),
        ("secret", "aws_secret_access_key = ", "wJalrXUtnFEMI" + "/K7MDENG/bPxRfiCYzzzzzzzzzz", ""),
        ("github-token", "use ", "gh" + "p_" + MIXED, " for CI"),
        ("github-token", "토큰은 ", "github" + "_pat_" + MIXED + "_" + MIXED, "입니다"),
        ("gitlab-token", "", "gl" + "pat-" + "x9Yz8Wv7Ut6Sr5Qp4On3", ""),
        ("slack-token", "bot ", "xo" + "xb-" + "123456789012-abcdefABCDEF", ""),
        ("slack-token", "https://", "hooks.slack" + ".com/services/T000AAAA/B000BBBB/" + MIXED[:24], ""),
        ("stripe-key", "", "sk" + "_live_" + "4eC39HqLyjWDarjtT1zdp7dc", ""),
        ("stripe-key", "", "wh" + "sec_" + MIXED, ""),
        ("openai-key", "OPENAI ", "sk" + "-proj-" + MIXED, ""),
        ("openai-key", "", "sk" + "-" + MIXED, ", thanks"),
        ("anthropic-key", "", "sk" + "-ant-api03-" + MIXED, ""),
        ("google-key", "maps key ", "AI" + "za" + "SyA1234567890abcdefghijklmnopqrstuv", ""),
        ("google-key", "", "GOC" + "SPX-" + MIXED[:28], ""),
        ("npm-token", "", "np" + "m_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5", ""),
        ("pypi-token", "", "py" + "pi-AgEIcHlwaS5vcmcC" + MIXED + MIXED, ""),
        ("huggingface-token", "", "h" + "f_" + MIXED[:34], ""),
        ("sendgrid-key", "", "S" + "G." + MIXED[:22] + "." + MIXED + "abcdef", ""),
        ("twilio-key", "sid ", "A" + "C" + HEX32, ""),
        ("azure-key", "", "abc8" + "Q~" + MIXED[:34], ""),
        ("api-key", "AccountKey=", "Zm9v" + MIXED + MIXED + "==", ";EndpointSuffix=core"),
        ("databricks-token", "", "da" + "pi" + HEX32, ""),
        ("vault-token", "", "hv" + "s." + MIXED, ""),
        ("telegram-token", "bot ", "12345678" + ":AA" + MIXED[:33], ""),
        ("jwt", "got ", _jwt(), " back"),
        ("auth-header", "Authorization: Bearer ", MIXED, ""),
        ("auth-header", "curl -H 'Authorization: Basic ", _basic("admin:" + PASSWORD), "'"),
        ("password", "postgres://app:", PASSWORD, "@db.internal:5432/app"),
        ("password", "redis://:", PASSWORD, "@cache:6379/0"),
        ("password", "mongodb+srv://u:", "p%40" + "ss", "@cluster0.example.net"),
        ("password", "password=", PASSWORD, ""),
        ("password", "password: ", PASSWORD, ""),
        ("password", "PASSWORD = '", PASSWORD, "'"),
        ("password", '"password": "', "correct horse " + "battery staple", '"'),
        ("password", "DB_PASSWORD=", "sword" + "fish", ""),
        ("password", "Server=db;User Id=sa;Pwd=", PASSWORD, ";Encrypt=true"),
        ("password", "The admin password is ", PASSWORD, "."),
        ("password", "I changed the password to ", PASSWORD, " today"),
        ("password", "비밀번호는 ", "abc" + "1234", "입니다"),
        ("password", "비밀번호: ", PASSWORD, ""),
        ("password", "パスワードは", PASSWORD, "です"),
        ("password", "密码：", PASSWORD, "。"),
        ("password", "密码是", PASSWORD, ""),
        ("password", "PIN: ", "48" + "15", ""),
        ("password", "mysql -u root -p", PASSWORD, " app"),
        ("password", "curl -u admin:", PASSWORD, " https://example.org"),
        ("password", "**Password:** ", PASSWORD, ""),
        ("api-key", "api_key: ", "abc123" + "def456", ""),
        ("api-key", "X-API-Key: ", HEX32, ""),
        ("api-key", 'const apiKey = "', "q1w2e3r4" + "t5y6", '";'),
        ("secret", '"client_secret": "', "s3cr" + "3tvalue", '"'),
        ("secret", "secret => '", "abcd" + "efgh1", "'"),
        ("token", "auth_token=", "a1b2c3" + "d4e5", ""),
        ("token", "https://x.example/cb?access_token=", "a1b2c3" + "d4e5", "&state=1"),
        ("token", 'token: str = "', "a1b2c3" + "d4e5", '"'),
        ("secret", "tool --api-key ", "a1b2c3" + "d4e5", " run"),
        ("secret", "SESSION_SIGNER=", MIXED, ""),
        ("secret", 'webhook_signer: "', MIXED, '"'),
        ("secret", "AUTH_SALT=", HEX32, ""),
        ("email", "write to ", EMAIL, "."),
        ("email", "메일은 ", "kim.minsu" + "@" + "mail.example.co.kr", "로 보내"),
        ("email", "<mailto:", "a+b" + "@" + "sub.example.com", ">"),
        ("phone", "call +", "1 415-555-" + "2671", ""),
        ("phone", "", "+8210" + "12345678", ""),
        ("phone", "", "+44 20 7946 " + "0958", " London"),
        ("phone", "reach me at ", "(415) 555-" + "2671", ""),
        ("phone", "", "415-555-" + "2671", ""),
        ("phone", "제 번호는 ", "010-1234-" + "5678", "이에요"),
        ("phone", "", "03-1234-" + "5678", ""),
        ("phone", "tél. ", "01 23 45 67 " + "89", ""),
        ("phone", "手机 ", "138123" + "45678", ""),
        ("phone", "+", "49 151 2345" + "6789", ""),
        ("payment-card", "card ", "4111 1111 1111 " + "1111", ""),
        ("payment-card", "", "55555555" + "55554444", ""),
        ("payment-card", "", "3782 822463 " + "10005", ""),
        ("iban", "pay to ", "DE89 3704 0044 0532 " + "0130 00", " please"),
        ("iban", "", "GB29NWBK" + "60161331926819", ""),
        ("us-ssn", "ssn ", "123-45-" + "6788", ""),
        ("kr-resident-number", "주민번호 ", "900101-" + "1234567", ""),
        ("passport", "passport no. ", "M1234" + "5678", ""),
        ("passport", "여권번호 ", "M1234" + "5678", ""),
    ]
]

NEGATIVES: list[str] = [
    "commit 3f2a9c1d4e5b60718293a4b5c6d7e8f901234567 fixed it",
    "git show 3f2a9c1",
    "id 550e8400-e29b-41d4-a716-446655440000",
    "sha256:" + "9f86d081884c7d65" * 4,
    '"integrity": "sha512-' + MIXED + MIXED + '=="',
    "checksum: " + MIXED,
    "see /home/app/config/settings.toml and src/auth/token.py",
    "C:\\Users\\app\\password.txt is ignored",
    "private_key: ~/.ssh/id_ed25519",
    "password_file=/run/secrets/db_password",
    "upgrade from v1.2.3 to 2.0.0-rc.1",
    "python 3.11.9, node 20.11.1, numpy==1.26.4",
    "released on 2024-05-01 at 12:30:45",
    "2024-05-01T12:30:45.123456Z",
    "server 192.168.100.200:8080 and 10.0.0.1:5432",
    "fe80::1ff:fe23:4567:890a",
    "ports 8080, 9090, 5432 and 27017",
    'password = os.environ["X"]',
    "password = os.getenv('DB_PASSWORD')",
    "const token = process.env.API_TOKEN",
    "token: str",
    "def login(user: str, password: str) -> Token:",
    "password: Optional[str] = None",
    "the password reset flow",
    "password: required",
    "Password must be at least 12 characters",
    "password=password",
    "connect(user=user, password=password)",
    "api_key=settings.api_key",
    "self.token = token",
    "token = get_token()",
    "secret = await vault.read('x')",
    "max_tokens=4096",
    "max_tokens: 128000",
    "token_count: 123456",
    "token limit: 8192",
    "tokens: 512",
    "token expires in 15 minutes",
    "Token: RS256-signed",
    "the token is refreshed every 3600 seconds",
    "password is hashed with argon2id",
    "password is sha256-hashed twice",
    "pass the token to service2-backend over TLS",
    "PASSWORD=${DB_PASSWORD}",
    "password: <your password>",
    "api_key: your-api-key-here",
    "password: ********",
    "postgres://app:${PG_PASSWORD}@db/app",
    "postgres://localhost:5432/app",
    "http://example.org:8080/a@b",
    "git@github.com:acme/billing.git",
    "ssh://git@github.com/acme/billing.git",
    "icon@2x.png and lodash@4.17.21",
    "@app.route('/users') uses @dataclass",
    "MAC 00:1A:2B:3C:4D:5E",
    "at 09:30:15 the job took 00:12:59",
    "2 + 2 = 4 and 12345 * 678 = 8369910",
    "pi is 3.14159265358979",
    "x = 1234567890123456",
    "order 4111111111111112 failed",
    "timestamp 1714566645123 and 1714566645",
    "snowflake 175928847299117063",
    "issue #1234567, PR 98765",
    "+1500 -300 lines changed",
    "UTC+09:00",
    "ISBN 978-3-16-148410-0",
    "the primary key is user_id",
    "the key = value format of config files",
    "monkey: banana42",
    "bypass: true",
    "the secret of good code: small functions",
    "Basic authentication is off; bearer authentication is on",
    "basic knowledge of SQL",
    "sk-learn-contrib-extension-package is archived",
    "task-force-1234567890-abcdefghij",
    "internationalization-and-localization",
    "HttpServerRequestHandlerFactoryBean",
    "name = 'VeryLongCamelCaseIdentifierForATest2'",
    "비밀번호 재설정 흐름을 고쳤다",
    "비밀번호는 매달 변경해야 한다",
    "パスワードは必須です",
    "密码不能为空",
    "암호화는 AES-256을 사용한다",
    "token_type: bearer",
    "token_url=https://auth.example.org/oauth/token",
    "credentials: include",
    "pin the version to 1.2.3",
    "access key rotation is every 90 days",
    "resolution 1920x1080, 3840-2160",
    "1,234,567,890 rows",
    "range 1000000-2000000",
    "chapters 12-34-5678",
    "curl -u ${USER}:${PASS} https://example.org",
    "The file starts with -----BEGIN RSA PRIVATE" + " KEY-----",
    "passport renewal takes 10 weeks",
]


@pytest.mark.parametrize(("kind", "text", "secret"), POSITIVES, ids=range(len(POSITIVES)))
def test_a_secret_is_replaced_by_a_mark_of_its_kind(kind: str, text: str, secret: str) -> None:
    redaction = redact(text)

    assert secret not in redaction.text
    assert f"[redacted:{kind}]" in redaction.text
    assert RedactionFinding(kind, 1) in redaction.findings


@pytest.mark.parametrize("text", NEGATIVES)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text).text == text
    assert redact(text).findings == ()


@pytest.mark.parametrize("text", [text for _, text, _ in POSITIVES])
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = redact(text).text

    assert redact(once).text == once
    assert redact(once).findings == ()


def test_what_stands_around_a_secret_is_kept() -> None:
    url = "postgres://app:" + PASSWORD + "@db.internal:5432/app?sslmode=require"

    assert redact(url).text == "postgres://app:[redacted:password]@db.internal:5432/app?sslmode=require"
    assert redact(f"mail {EMAIL}, then deploy").text == "mail [redacted:email], then deploy"
    assert redact(f'{{"password": "{PASSWORD}", "user": "app"}}').text == (
        '{"password": "[redacted:password]", "user": "app"}'
    )


def test_findings_are_counted_by_kind_and_hold_no_secret() -> None:
    redaction = redact(f"{EMAIL} and b{EMAIL}, password={PASSWORD}")

    assert redaction.findings == (RedactionFinding("email", 2), RedactionFinding("password", 1))
    assert PASSWORD not in repr(redaction)


def test_metadata_is_redacted_at_any_depth() -> None:
    value = {
        "user": {"email": EMAIL, "age": 7, "tags": [EMAIL, "plain"]},
        "db_password": PASSWORD,
        "pin": None,
        "token_count": 12,
        "secrets": {"apiKey": "abc123" + "def456"},
        "auth": {"token": ["a1b2c3" + "d4e5"]},
        "passwd": 12345,
        "password_hint": "none",
        EMAIL: 1,
    }

    redacted = redact_metadata(value)

    assert redacted.value == {
        "user": {"email": "[redacted:email]", "age": 7, "tags": ["[redacted:email]", "plain"]},
        "db_password": "[redacted:password]",
        "pin": None,
        "token_count": 12,
        "secrets": {"apiKey": "[redacted:api-key]"},
        "auth": {"token": ["[redacted:token]"]},
        "passwd": "[redacted:password]",
        "password_hint": "none",
        "[redacted:email]": 1,
    }
    assert RedactionFinding("email", 3) in redacted.findings


def test_two_keys_that_become_one_mark_keep_both_values() -> None:
    redacted = redact_metadata({EMAIL: 1, "b" + EMAIL: 2})

    assert sorted(redacted.value.values()) == [1, 2]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
PIECES = st.lists(
    st.sampled_from(
        [
            *(text for _, text, _ in POSITIVES),
            *NEGATIVES,
            " ",
            "=",
            ":",
            '"',
            "'",
            "@",
            "+",
            "-",
            "password=",
            "token: ",
            "is ",
            "[redacted:",
            "]",
        ]
    ),
    max_size=6,
)


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    once = redact(text).text

    assert redact(once).text == once


@given(PIECES)
def test_joined_secrets_settle_in_one_call(pieces: list[str]) -> None:
    once = redact("".join(pieces)).text

    assert redact(once).text == once


@given(JSON)
def test_any_metadata_is_taken(value: Any) -> None:
    once = redact_metadata(value).value

    assert redact_metadata(once).value == once

"""Passwords told in plain words are removed; what only speaks of passwords stays."""

from __future__ import annotations

import pytest

from mindhold.text.redaction import redact

TOLD = (
    "use password hunter2 for the staging db",
    "the password is hunter2",
    "passwd: hunter2",
    "Password hunter2",
    "The password for the staging db is hunter2.",
    "my password was Tr0ub4dor",
    "use the password swordfish for the staging db",
    "The password for staging is swordfish.",
    "the password is swordfish",
    "log in with password correct-horse-7",
    "log in as admin with password hunter2",
    "user admin, pw hunter2",
    "pwd hunter2",
    "hunter2 is the password for staging",
    "the pin is 4711",
    "Try 'hunter2' as the password",
    'use the password "hunter2" there',
    "use the password `swordfish` there",
    "the db password should be hunter2",
    "password will be hunter2 from now on",
    "credentials are admin/hunter2",
    "login with admin / hunter2",
    "set the password to hunter2",
    "passphrase is open-sesame-99",
    "das Passwort ist hunter2",
    "das Passwort lautet hunter2",
    "Das Passwort für die Staging-Datenbank ist hunter2.",
    "benutze das Passwort hunter2 für die Datenbank",
    "Kennwort: hunter2",
    "das Kennwort ist hunter2",
    "mit dem Passwort hunter2 anmelden",
    "le mot de passe est hunter2",
    "utilise le mot de passe hunter2 pour la base",
    "le mot de passe de la base est hunter2",
    "la contraseña es hunter2",
    "usa la contraseña hunter2 para staging",
    "la contraseña de staging es hunter2",
    "la clave es hunter2",
    "비밀번호는 hunter2",
    "비밀번호는 hunter2입니다",
    "비번 hunter2 써",
    "비밀번호 hunter2로 접속해",
    "스테이징 DB 비밀번호는 hunter2야",
    "패스워드는 hunter2야",
    "hunter2가 비밀번호야",
    "암호는 hunter2이에요",
    "パスワードはhunter2です",
    "パスワードは hunter2 です",
    "パスワード hunter2 を使って",
    "ステージングのパスワードはhunter2",
    "hunter2がパスワードです",
    "暗証番号は4711です",
    "密码是hunter2",
    "密码是 hunter2",
    "密码 hunter2",
    "用密码hunter2登录",
    "数据库的密码为 hunter2",
    "口令是hunter2",
    "пароль hunter2",
    "пароль: hunter2",
    "пароль от базы — hunter2",
    "используй пароль hunter2 для базы",
    "с паролем hunter2",
    "Пароль для стейджинга: hunter2",
    "a senha é hunter2",
    "use a senha hunter2",
)
HARMLESS = (
    "the password is hashed with argon2",
    "use password hashing",
    "password must be 12 characters",
    "use password authentication for the API",
    "The password is optional.",
    "The password is required for login.",
    "passwords are hashed with bcrypt",
    "password reset v2 is live",
    "the password field is validated",
    "the password for the db is in the vault",
    "password 2FA is on",
    "with password protection for admin2 pages",
    "use password managers for that",
    "use password grant for the test client",
    "The password is stored in AWS.",
    "The password is simple.",
    "password is wrong",
    "the password is mandatory.",
    "password length is 12",
    "password strength meter uses zxcvbn",
    "password policy: 90 days",
    "use password based login",
    "enter the password twice",
    "enter password again",
    "type the password here",
    "the password column is VARCHAR(255)",
    "the password hash is SHA-256",
    "password hashing is PBKDF2 with 100000 iterations",
    "password with 12 characters",
    "Passwort muss 12 Zeichen haben",
    "das Passwort ist optional",
    "das Passwort ist gehasht",
    "das Passwort wird gehasht",
    "le mot de passe est obligatoire",
    "le mot de passe doit avoir 12 caractères",
    "le mot de passe est haché",
    "la contraseña es obligatoria",
    "la contraseña debe tener 12 caracteres",
    "비밀번호는 12자 이상",
    "비밀번호는 bcrypt로 해시",
    "비밀번호 8자",
    "비밀번호는 Keycloak에서 관리",
    "비밀번호 reset 기능",
    "パスワードはbcryptでハッシュ",
    "パスワードはVaultに保存",
    "パスワードは12文字",
    "パスワードreset機能",
    "密码用bcrypt加密",
    "密码是必填项",
    "密码8位",
    "密码hash",
    "пароль должен быть 12 символов",
    "пароль хешируется argon2",
    "пароль обязателен",
    "la clave es importante",
    "la clave es que 2fa funcione",
    "the key is to use step2",
    "the password is a hash",
    "the password is test data",
    "the password is the same as before",
    "Use the password from 1Password",
    "ask for the password in step 2",
    "the passwords2 table",
    "The password is read from DB_PASSWORD.",
    "the password is set by POSTGRES_PASSWORD",
    "password login on port 5433",
    "set password via env var",
    "password prompt appears twice",
    "put the password in .env2 file",
    "Password reset flow (v2)",
    "password generator in utils/crypto2.py",
    "passwd file is /etc/passwd2",
    "the password rules in RFC2617",
    "use password x509 certificates",
    "use password or token",
    "with password and salt16",
)
VALUES = ("hunter2", "swordfish", "Tr0ub4dor", "correct-horse-7", "4711", "open-sesame-99")


@pytest.mark.parametrize("text", TOLD)
def test_a_password_in_plain_words_is_removed(text: str) -> None:
    clean = redact(text).text
    assert not any(value in clean for value in VALUES)
    assert redact(clean).text == clean
    assert redact(f"Before. {text}\nAfter.").text == f"Before. {clean}\nAfter."


@pytest.mark.parametrize("text", HARMLESS)
def test_what_speaks_of_passwords_stays(text: str) -> None:
    assert redact(text).text == text


def test_what_stands_around_it_stays() -> None:
    assert redact("use password hunter2 for the staging db").text == (
        "use password [redacted:password] for the staging db"
    )
    assert redact("비밀번호는 hunter2입니다").text == "비밀번호는 [redacted:password]입니다"
    assert (
        redact("hunter2 is the password for staging").text
        == "[redacted:password] is the password for staging"
    )


def test_a_long_line_is_no_work() -> None:
    """Patterns are bounded: their time grows with the text."""
    for part in ("password for ", "pw a ", "hunter2 is the ", "login admin/", "пароль для "):
        assert redact(part * 20_000).text.startswith(part)

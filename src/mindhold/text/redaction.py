"""Replaces secrets and personal data in text before the text is written anywhere."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache, reduce
from operator import or_
from typing import Any

from mindhold.text.pattern import LazyPattern

Replace = Callable[[re.Match[str]], str | None]


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """A rule for secrets of one kind: where a trigger occurs, every match of `pattern` is one.

    A trigger in lower case matches any case. `replace` returns the new text for a match, or None to leave it;
    without it the whole match becomes the mark. `gate` is a cheaper pattern that must match the text in lower case.
    """

    kind: str
    triggers: tuple[str, ...]
    pattern: LazyPattern
    replace: Replace | None = None
    gate: LazyPattern | None = None


def redaction_mark(kind: str) -> str:
    """The text that replaces a secret."""
    return f"[redacted:{kind}]"


_EDGE = r"(?<![A-Za-z0-9_])"  # ASCII on purpose: Korean particles follow without a space

# kind, triggers, pattern. A pattern starts with a literal and is bounded, so that no text is slow.
_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("aws-key", "akia a3t", r"(?:AKIA|A3T[A-Z0-9])[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("aws-key", "asia", r"ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("aws-key", "abia", r"ABIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,255}"),
    ("github-token", "github_pat_", r"github_pat_\w{40,255}"),
    (
        "gitlab-token",
        "glpat- glptt- glrt- gldt- glft- glsoat- glcbt- glagent- gloas- glimt-",
        r"gl(?:pat|ptt|rt|dt|ft|soat|cbt|agent|oas|imt)-[\w-]{20,255}",
    ),
    ("slack-token", "xox", r"xox[abceoprs]-[\w-]{10,255}"),
    ("slack-token", "xapp-", r"xapp-\d-[\w-]{10,255}"),
    ("slack-token", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/[\w/-]{20,255}"),
    ("stripe-key", "_live_", r"(?:sk|rk|pk)_live_[A-Za-z0-9]{10,255}"),
    ("stripe-key", "_test_", r"(?:sk|rk|pk)_test_[A-Za-z0-9]{10,255}"),
    ("stripe-key", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,255}"),
    ("anthropic-key", "sk-ant-", r"sk-ant-[\w-]{20,255}"),
    ("openai-key", "sk-", r"sk-(?=[\w-]{0,60}\d)(?!ant-)[\w-]{20,255}"),
    ("google-key", "aiza", r"AIza[\w-]{35}(?![\w-])"),
    ("google-key", "ya29.", r"ya29\.[\w-]{20,2048}"),
    ("google-key", "gocspx-", r"GOCSPX-[\w-]{20,64}"),
    ("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("pypi-token", "pypi-", r"pypi-[\w-]{50,512}"),
    ("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{30,64}(?![A-Za-z0-9])"),
    ("sendgrid-key", "sg.", r"SG\.[\w-]{16,32}\.[\w-]{16,64}"),
    ("twilio-key", "AC SK", r"(?:AC|SK)[0-9a-f]{32}(?![A-Za-z0-9])"),
    ("azure-key", "8q~", r"[\w~.-]{3}8Q~[\w~.-]{31,34}"),
    ("azure-key", "sig=", r"sig=(?=[\w%+/]{0,60}\d)[\w%+/-]{30,120}={0,2}"),
    ("digitalocean-token", "_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("databricks-token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])"),
    ("vault-token", "hvs.", r"hvs\.[\w-]{20,255}"),
    ("docker-token", "dckr_pat_", r"dckr_pat_[\w-]{20,64}"),
    ("atlassian-token", "atatt3", r"ATATT3[\w=-]{50,255}"),
    ("linear-key", "lin_api_", r"lin_api_[A-Za-z0-9]{30,64}"),
    ("notion-token", "ntn_", r"ntn_[A-Za-z0-9]{30,64}"),
    ("groq-key", "gsk_", r"gsk_[A-Za-z0-9]{40,64}"),
    ("xai-key", "xai-", r"xai-[A-Za-z0-9]{40,128}"),
    ("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{30,64}"),
    ("replicate-token", "r8_", r"r8_[A-Za-z0-9]{30,64}"),
    ("age-key", "age-secret-key-", r"AGE-SECRET-KEY-1[0-9A-Z]{50,64}"),
    ("telegram-token", ":aa", r"\d{8,10}:AA[\w-]{32,34}(?![\w-])"),
    ("jwt", "eyj", r"eyJ[\w-]{8,4096}\.eyJ[\w-]{8,8192}(?:\.[\w-]{0,2048})?"),
)

_KEY_BLOCK = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^-]*(?:-(?!----)[^-]*)*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{32,})+)"
)
_PLACEHOLDER = LazyPattern(
    r"\[redacted\b|[<{*…]|\$[A-Za-z_{(]|%\w*[%(s]|x{3,}$|\.{3}|(?:your|my|example|dummy|placeholder|insert)[-_ ]",
    re.IGNORECASE,
)


def is_placeholder(value: str) -> bool:
    """Whether the value is only a placeholder: `${TOKEN}`, `<password>`, `****`, `your-key-here`."""
    return _PLACEHOLDER.match(value) is not None


def _url(match: re.Match[str]) -> str | None:
    user, password = match.groups()
    return None if is_placeholder(password) else f"{user}:{redaction_mark('password')}@"


def _bearer(match: re.Match[str]) -> str | None:
    scheme, token = match.groups()
    looks_random = any(c.isdigit() for c in token) or (len(token) >= 24 and not token.islower())
    return f"{scheme}{redaction_mark('auth-header')}" if looks_random else None


def _basic(match: re.Match[str]) -> str | None:
    scheme, token = match.groups()
    try:
        decoded = base64.b64decode(token + "=" * (-len(token) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return f"{scheme}{redaction_mark('auth-header')}" if b":" in decoded else None


def _curl_user(match: re.Match[str]) -> str | None:
    option, user, password = match.groups()
    return None if is_placeholder(password) else f"{option}{user}:{redaction_mark('password')}"


def _glued_option(match: re.Match[str]) -> str:
    return f"{match[1]}{redaction_mark('password')}"


CREDENTIAL_RULES: tuple[RedactionRule, ...] = (
    RedactionRule("private-key", ("private key",), LazyPattern(_KEY_BLOCK)),
    *(
        RedactionRule(kind, tuple(triggers.split()), LazyPattern(_EDGE + pattern, re.ASCII))
        for kind, triggers, pattern in _SHAPES
    ),
    RedactionRule(
        "password",
        ("://",),
        LazyPattern(r"(?<=://)([^\s:@/?#\"'<>]{0,128}):([^\s/?\"'<>]{1,256})@(?=[\w\[])"),
        _url,
    ),
    RedactionRule(
        "auth-header",
        ("bearer",),
        LazyPattern(r"(\bbearer\s+)([\w~+/.=-]{12,4096})", re.IGNORECASE | re.ASCII),
        _bearer,
    ),
    RedactionRule(
        "auth-header",
        ("basic",),
        LazyPattern(r"(\bbasic\s+)([A-Za-z0-9+/]{6,512}={0,2})", re.IGNORECASE),
        _basic,
    ),
    RedactionRule(
        "password",
        ("curl",),
        LazyPattern(r"(\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]['\"]?)([^\s:'\"]{1,64}):([^\s'\"]{1,128})"),
        _curl_user,
    ),
    RedactionRule(
        "password",
        ("mysql",),
        LazyPattern(r"(\bmysql(?:dump|admin)?\b[^\n]{0,200}?\s-p)(?!\[redacted)[^\s'\"$<-][^\s'\"]{2,64}"),
        _glued_option,
    ),
)

_LOCAL_NAMES = (
    *("비밀번호", "비번", "암호", "パスワード", "暗証番号", "密码", "密碼", "口令"),
    *("contraseña", "senha", "пароль"),
)
# kind, names, triggers, and the end of the names as a gate: literal first, so that the search is quick.
_NOUNS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    (
        "password",
        r"password|passwd|passphrase|passwort|passcode|mot de passe|(?<![a-z])pass(?=[\"']?\s?[=:])|pwd|(?<![a-z])pw(?=[=:])"
        r"|(?<![a-z])pin(?=[=:]|\scode|\sis\s\d)(?:\scode)?",
        tuple(
            "passw|passphrase|passcode|passe|pass=|pass:|pass\"|pass =|pass'|pwd|pw=|pw:|pin=|pin:|pin code|pin is".split(
                "|"
            )
        ),
        r"p(?:ass(?:w(?:or[dt]|d)|phrase|code|e)?|wd?|in(?: code)?)",
    ),
    ("password", "|".join(_LOCAL_NAMES), _LOCAL_NAMES, ""),
    (
        "api-key",
        r"(?:api|access|account|auth|encryption|signing|shared[_-]?access|private|service|master|storage|webhook)[_ -]?key",
        ("key",),
        "key",
    ),
    (
        "secret",
        r"secret(?:[_ -]?(?:access[_ -]?)?key|[_ -]?string)?|credentials?",
        ("secret", "credential"),
        "(?:secret(?:[_ -]?(?:access[_ -]?)?key|[_ -]?string)?|credentials?)",
    ),
    ("token", r"(?<!max)(?<!max[_-])token", ("token",), "token"),
)
_SUFFIX = r"(?:[_-](?:prod|production|dev|development|test|staging|live|old|new|value|base|[0-9]{1,2}|[a-z](?![a-z])))?"
# `:=`, `=>`, a type before the value (`token: str = "..."`), full-width signs, and "is" in prose.
_OPERATOR = (
    r"[\"'`]{0,2}(?P<operator>[ \t]{0,4}(?::[ \t]{0,2}&?[a-z]\w{0,12}[ \t]?=(?!=)|:=|=>|=(?![=>~])|:(?![:=])|：|＝)\*{0,2}[ \t]{0,4}"
    r"|(?<=[^\x00-\x7f])(?:는|은|이|가|は|が|是|为|為|を|를|을)[ \t]{0,2}"
    r"|[ \t](?:is|was|to|ist|es|est)(?: now)?:?[ \t]{1,2})"
)
_VALUE = (
    r"(?:[\"'`“](?P<quoted>[^\"'`”\n]{1,512})[\"'`”]"
    r"|(?P<bare>[^\s,;\"'`<>(){}\[\]，。、「」“”][^\s,;\"'`<>(){}\[\]，。、「」“”]{0,511}))"
)
_OPTION = (
    r"(?P<head>(?<!\S)--?(?:[a-z]{1,20}-)?(?:password|passwd|token|api-?key|secret)[ =]['\"]?)"
    r"(?P<value>[^\s'\"-][^\s'\"]{3,256})"
)
# A value of twenty or more characters right after `=` or `:`; the name before it is checked later.
_RANDOM = r"[=:][>=]?[ \t]{0,3}[\"'`]?(?P<value>[A-Za-z0-9+/_\-]{20,512}={0,2})(?![\w/.-])"

_NAME_BEFORE = LazyPattern(r"([A-Za-z_][\w.-]{0,60})[\"'`]?\s{0,3}$", re.ASCII)
_HARMLESS_NAME = LazyPattern(
    r"(?:id|ids|uuid|guid|hash|sha\d*|shasum|md5|digest|checksum|commit|etag|integrity|fingerprint|rev|revision|ref|url|uri|path"
    r"|file|dir|cursor|version|tag|branch|name|title|slug|href|src|image|class|classname|model|data|resolved|nonce|https?)$",
    re.IGNORECASE,
)
_TELLING_NAME = LazyPattern(r"key|auth|salt|sign|cred", re.IGNORECASE)
_PLAIN = LazyPattern(
    r"(?:none|null|nil|true|false|undefined|str|string|bytes?|int|integer|number|bool|boolean|any|object|optional|text|varchar"
    r"|required|missing|empty|hidden|unset|changed|invalid|valid|expired|wrong|unknown|encrypted|hashed|rotated|stored|revoked"
    r"|secretstr|redacted|masked|reset|default|nonce|self|this|await|new|input|values?|users?|username|name|prompt|readonly|void"
    r"|char|const|let|var|the|an?|not|in|see|uses?|must|should|never|always|from|per|only|kept|login|policy|fields?|yes|no|n/a"
    r"|tbd|todo|env|environ|ok|okay|correct|incorrect|strong|weak|short|long|secure|plain|plaintext)"
    r"$|[a-z_.-]*(?:password|passwd|pwd|secret|token|api_?key|passphrase)[a-z_.-]*$",
    re.IGNORECASE,
)
_ALGORITHM = LazyPattern(
    r"sha-?\d|md5|base64|bcrypt|argon2|utf-?8|oauth|[hrep]s(?:256|384|512)|x509|ed25519|pbkdf2", re.IGNORECASE
)
_HARMLESS_VALUE = LazyPattern(
    r"v?\d+(?:\.\d+)+$|\d{4}-\d\d-\d\d|(?:~|\.{1,2})?/[\w./@-]*[a-z][\w./@-]*$|[A-Za-z]:\\|[a-z][a-z0-9+.-]*://"
    r"|[a-z_][\w$-]*(?:/[a-z_][\w.-]*)+$|[a-z_][\w$]*(?:(?:\.|->|::)[A-Za-z_]\w*)+$|\d+(?:ms|s|m|h|d|k|kb|mb|gb|px|%)$"
    r"|[\w-]+\.(?:pem|key|crt|env|txt|ya?ml|json|toml|md|py|ts)$",
    re.IGNORECASE,
)
_PROSE = LazyPattern(
    r"\b(?:the|must|should|your|enter|is|are|at least|required|please|of|a|for|this|invalid|incorrect|when|to|and|or|with)\b",
    re.IGNORECASE,
)
_BEING_SET = LazyPattern(r"(?:chang|set|reset|updat)\w* [^.\n]{0,30}$", re.IGNORECASE)
_CHANGE = LazyPattern(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")
_HEX = LazyPattern(r"(?:0x)?[0-9a-fA-F]+$|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-")
_ASCII_PART = LazyPattern(r"[\x21-\x7e]*[^\x00-\x20\x7f-\U0010ffff.,;:?]")
_COPULA = LazyPattern(r"[ \t]*[^\W\d_]")
_SORTED_ID = LazyPattern(r"[0-7][0-9a-hjkmnp-tv-z]{25}$", re.IGNORECASE)  # such as a memory's id


def count_class_changes(value: str) -> int:
    """How often upper case, lower case and digits alternate: rarely in words, often in keys."""
    return len(_CHANGE.findall(value))


def looks_random(value: str) -> bool:
    """Whether the value mixes character classes like a random key; not hex, joined words or an id that sorts by time."""
    if _SORTED_ID.match(value):
        return False
    if len(value) < 20 or _HEX.match(value) or _ALGORITHM.match(value) or not any(c.isdigit() for c in value):
        return False
    body = value.rstrip("=")
    entropy = -sum(n / len(body) * math.log2(n / len(body)) for n in Counter(body).values())
    return entropy >= 3.7 and count_class_changes(body) >= len(body) * 0.25


def secret_kind(name: str) -> str | None:
    """The kind of secret that a key with this name contains: `db_password` -> password, `token_count` -> None."""
    for kind, pattern in _NAMES:
        if pattern.search(name):
            return kind
    return None


def is_quoted_secret(kind: str, value: str) -> bool:
    """Whether a whole string under a name of this kind is a secret, not a placeholder or a description."""
    if is_placeholder(value) or _HARMLESS_VALUE.match(value) or _PLAIN.match(value):
        return False
    if re.search(r"\s", value):
        return kind == "password" and len(value.split()) <= 6 and not _PROSE.search(value)
    if kind == "password":
        return True
    if kind == "secret":
        return len(value) >= 4
    return len(value) >= 6 and (any(c.isdigit() for c in value) or len(value) >= 20)


def _is_bare_secret(kind: str, value: str, *, prose: bool, tight: bool, last: bool) -> bool:
    if (
        is_placeholder(value)
        or _HARMLESS_VALUE.match(value)
        or _PLAIN.match(value)
        or _ALGORITHM.search(value)
    ):
        return False
    if value.isdigit():
        return len(value) >= {"password": 4, "secret": 6}.get(kind, 24) and not (prose and kind == "secret")
    digit = any(c.isdigit() for c in value)
    symbol = any(c in "!@#$%^&*~?+=|\\" for c in value)
    if kind == "password":
        if digit or symbol:
            return len(value) >= (6 if prose else 4)
        return not prose and len(value) >= 4 and (tight or (last and value.islower() and len(value) >= 6))
    if prose:
        return len(value) >= 12 and digit and count_class_changes(value) >= 4
    if digit:
        return len(value) >= (6 if tight else 8)
    return len(value) >= 20 and count_class_changes(value) >= len(value) * 0.25


def _assignment(kind: str) -> Replace:
    def replace(match: re.Match[str]) -> str | None:
        quoted, bare = match["quoted"], match["bare"]
        if quoted is not None:
            if not is_quoted_secret(kind, quoted):
                return None
            value = match["value"]
            return f"{match['head']}{value[0]}{redaction_mark(kind)}{value[-1]}"
        if match.string[match.end() : match.end() + 1] in ("(", "[", "{"):
            return None
        before = match.string[max(0, match.start() - 48) : match.start()]
        if "&" in bare and re.search(r"[?&][\w.-]*$", before):
            bare = bare[: bare.index("&")]
        core = _ASCII_PART.match(bare)
        operator = match["operator"]
        if core is None or (
            operator.strip() == "to" and not (kind == "password" and _BEING_SET.search(before))
        ):
            return None
        rest = match["bare"][core.end() :]
        following = match.string[match.end() :]
        is_secret = _is_bare_secret(
            kind,
            core[0],
            prose=_COPULA.match(operator) is not None,
            tight=operator == "=",
            last=not following or following[0] in "\r\n;",
        )
        return f"{match['head']}{redaction_mark(kind)}{rest}" if is_secret else None

    return replace


def _option(match: re.Match[str]) -> str | None:
    if not _is_bare_secret("password", match["value"], prose=False, tight=True, last=False):
        return None
    return f"{match['head']}{redaction_mark('secret')}"


def _random(match: re.Match[str]) -> str | None:
    name = _NAME_BEFORE.search(match.string[max(0, match.start() - 64) : match.start()])
    value = match["value"]
    if name is None or _HARMLESS_NAME.search(name[1]):
        return None
    long_hex = len(value) >= 32 and _HEX.match(value) is not None and "-" not in value
    if not looks_random(value) and not (long_hex and _TELLING_NAME.search(name[1])):
        return None
    return match[0].replace(value, redaction_mark("secret"))


_NAMES = tuple(
    (kind, LazyPattern(rf"(?:{nouns.replace('(?=[=:])', '$')}){_SUFFIX}$", re.IGNORECASE))
    for kind, nouns, _, _ in _NOUNS
)
ASSIGNMENT_RULES: tuple[RedactionRule, ...] = (
    *(
        RedactionRule(
            kind,
            triggers,
            LazyPattern(rf"(?P<head>(?:{nouns}){_SUFFIX}{_OPERATOR})(?P<value>{_VALUE})", re.IGNORECASE),
            _assignment(kind),
            LazyPattern(gate + _SUFFIX + _OPERATOR) if gate else None,
        )
        for kind, nouns, triggers, gate in _NOUNS
    ),
    RedactionRule(
        "secret",
        ("--pass", "-token ", "-token=", "-key ", "-key=", "-apikey ", "-apikey=", "-secret"),
        LazyPattern(_OPTION, re.IGNORECASE),
        _option,
    ),
)
RANDOM_RULE = RedactionRule("secret", (), LazyPattern(_RANDOM, re.ASCII), _random)

_FILE_ENDINGS = frozenset(
    "png jpg jpeg gif svg webp ico tgz gz zip js mjs cjs ts css scss json map html xml yaml yml toml txt md".split()
)
# Lengths of an IBAN by country.
_IBAN_LENGTHS = {
    **dict.fromkeys(("NO",), 15),
    **dict.fromkeys(("BE",), 16),
    **dict.fromkeys(("DK", "FI", "NL", "FO", "GL"), 18),
    **dict.fromkeys(("MK", "SI"), 19),
    **dict.fromkeys(("AT", "BA", "EE", "KZ", "LT", "LU", "XK"), 20),
    **dict.fromkeys(("CH", "CR", "HR", "LI", "LV"), 21),
    **dict.fromkeys(("BG", "BH", "DE", "GB", "GE", "IE", "ME", "RS"), 22),
    **dict.fromkeys(("AE", "GI", "IL", "TL"), 23),
    **dict.fromkeys(("AD", "CZ", "ES", "MD", "PK", "RO", "SA", "SE", "SK", "TN", "VG"), 24),
    **dict.fromkeys(("PT", "ST"), 25),
    **dict.fromkeys(("IS", "TR"), 26),
    **dict.fromkeys(("FR", "GR", "IT", "MC", "MR", "SM"), 27),
    **dict.fromkeys(("AL", "AZ", "CY", "DO", "GT", "HU", "LB", "PL", "SV", "BY"), 28),
    **dict.fromkeys(("BR", "PS", "QA", "UA"), 29),
    **dict.fromkeys(("JO", "KW", "MU"), 30),
    **dict.fromkeys(("MT", "SC"), 31),
}
_DIGIT_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def passes_luhn(digits: str) -> bool:
    """Whether the digits end in the check digit that payment cards carry."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def is_valid_iban(compact: str) -> bool:
    """Whether country, length and the mod 97 check agree."""
    if _IBAN_LENGTHS.get(compact[:2]) != len(compact):
        return False
    rotated = compact[4:] + compact[:4]
    return int("".join(str(_DIGIT_ALPHABET.index(char)) for char in rotated)) % 97 == 1


def _email(match: re.Match[str]) -> str | None:
    labels = match["domain"].lower().split(".")
    is_file = labels[-1] in _FILE_ENDINGS and labels[0][:1].isdigit()  # icon@2x.png, lodash@4.17.21.tgz
    is_remote = match["local"] == "git" and match.string[match.end() : match.end() + 1] in (":", "/")
    return None if is_file or is_remote else redaction_mark("email")


def _card(match: re.Match[str]) -> str | None:
    digits = re.sub(r"\D", "", match[0])
    return redaction_mark("payment-card") if passes_luhn(digits) and len(set(digits)) > 1 else None


def _iban(match: re.Match[str]) -> str | None:
    # Words in capitals may follow the number: read as many characters as the country's IBANs have.
    text = match[0]
    length = _IBAN_LENGTHS.get(text[:2], 0)
    length_read = end = 0
    while end < len(text) and length_read < length:
        length_read += text[end] not in " -"
        end += 1
    compact = re.sub("[ -]", "", text[:end])
    whole = end == len(text) or text[end] in " -"
    return redaction_mark("iban") + text[end:] if whole and is_valid_iban(compact) else None


def _resident(match: re.Match[str]) -> str | None:
    birth_date, rest = match.groups()
    century = 1900 if rest[0] in "1256" else 2000
    try:
        date(century + int(birth_date[:2]), int(birth_date[2:4]), int(birth_date[4:]))
    except ValueError:
        return None
    return redaction_mark("kr-resident-number")


def _phone(match: re.Match[str]) -> str | None:
    digits = sum(char.isdigit() for char in match[0])
    return redaction_mark("phone") if 8 <= digits <= 15 else None


def _plus_phone(match: re.Match[str]) -> str | None:
    digits = sum(char.isdigit() for char in match[0])
    separated = len(match[0]) > digits + 1
    return redaction_mark("phone") if (8 if separated else 10) <= digits <= 15 else None


def _labelled_phone(match: re.Match[str]) -> str | None:
    number = match["number"]
    digits = sum(char.isdigit() for char in number)
    if not 7 <= digits <= 15 or re.match(r"\d{4}-\d\d-\d\d\b|\d{1,3}(?:\.\d{1,3}){3}\b", number):
        return None
    return match["label"] + redaction_mark("phone")


def _passport(match: re.Match[str]) -> str:
    return match[1] + redaction_mark("passport")


_NOT_INSIDE = r"(?<![\w#+=./:-])"
_NOT_FOLLOWED = r"(?![\w-]|[.:/]\d)"
_EMAIL = (
    r"(?<![A-Za-z0-9._%+/-])(?P<local>[A-Za-z0-9][A-Za-z0-9._%+'-]{0,63})@"
    r"(?P<domain>(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})(?![A-Za-z0-9-])"
)
_CARD = (
    r"(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6(?:011|4[4-9]\d|5\d\d)|35\d\d)(?:([ -]?)\d{4})(?:\1\d{4}){2}"
    r"|3[47]\d\d([ -]?)\d{6}\2\d{5}|3(?:0[0-5]|[68]\d)\d([ -])\d{6}\3\d{4}"
)
_IBAN = r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{1,4}){3,9}(?![A-Za-z0-9])"
_PLUS_PHONE = (
    r"(?<![\w+.])(?:\+|00(?=[1-9]\d[ -]))[1-9]\d{0,2}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,12}(?:[ .-]\d{2,8}){0,5}"
    + (r"(?!\d|[.:]\d)")
)
_NATIONAL_PHONE = "|".join(
    (
        r"(?:1[ .-])?\([2-9]\d\d\) ?[2-9]\d\d[ .-]\d{4}",  # North America
        r"(?:1-)?[2-9]\d\d-[2-9]\d\d-\d{4}",
        r"[2-9]\d\d\.[2-9]\d\d\.\d{4}",
        r"0\d{1,3}-\d{3,4}-\d{4}",  # Korea, Japan
        r"01\d[ .]\d{3,4}[ .]\d{4}",
        r"0\d(?: \d\d){4}|0\d(?:\.\d\d){4}",  # France
        r"0\d{2} \d{4} \d{4}|07\d{3} ?\d{6}|01\d{3} \d{6}",  # United Kingdom
        r"\(0\d{1,4}\) ?\d{3,4}[ -]?\d{3,5}",
        r"\(\d\d\) ?9\d{4}-\d{4}",  # Brazil
        r"1[3-9]\d[ -]\d{4}[ -]\d{4}",  # China
    )
)
_LABELS = (
    r"phone(?: number)?|telephone|tel|mobile|cell|whatsapp|call|sms|fax|전화(?:번호)?|휴대폰|핸드폰|연락처|電話(?:番号)?|携帯|电话|手机(?:号)?"
    r"|teléfono|telefon|téléphone|telefone|celular|móvil|handy|телефон"
)
_LABELLED_PHONE = (
    rf"(?P<label>(?<![a-z])(?:{_LABELS})[ .:：=#]{{0,3}}(?:is |at |me at |는 |은 |は|是|me on )?)"
    r"(?P<number>(?:\+|\()?\d[\d ().-]{5,20}\d)(?![\d.:]\d|\w)"
)
_PASSPORT_WORDS = "passport|여권|旅券|パスポート|护照|護照|pasaporte|passeport|reisepass|passaporte"
_PASSPORT = (
    rf"((?:{_PASSPORT_WORDS})"
    r"[^\n\d]{0,24}?(?<![A-Za-z0-9]))(?-i:[A-Z]{1,2}\d{6,8}|\d{9}|[A-Z]\d{3}[A-Z]\d{4})(?![A-Za-z0-9])"
)

WORD_RULES: tuple[RedactionRule, ...] = (
    RedactionRule("email", ("@",), LazyPattern(_EMAIL), _email),
    RedactionRule(
        "passport", tuple(_PASSPORT_WORDS.split("|")), LazyPattern(_PASSPORT, re.IGNORECASE), _passport
    ),
)
IBAN_RULE = RedactionRule("iban", (), LazyPattern(_IBAN), _iban)

# All of these need MANY_DIGITS: redact() checks that first.
NUMBER_RULES: tuple[RedactionRule, ...] = (
    RedactionRule(
        "payment-card", (), LazyPattern(rf"{_NOT_INSIDE}(?:{_CARD}){_NOT_FOLLOWED}", re.ASCII), _card
    ),
    RedactionRule(
        "us-ssn",
        (),
        LazyPattern(
            rf"{_NOT_INSIDE}(?!000|666|9)\d{{3}}-(?!00)\d\d-(?!0000)\d{{4}}{_NOT_FOLLOWED}", re.ASCII
        ),
    ),
    RedactionRule(
        "kr-resident-number", (), LazyPattern(r"(?<![\w-])(\d{6})-([1-8]\d{6})(?![\w-])", re.ASCII), _resident
    ),
    RedactionRule("phone", (), LazyPattern(_PLUS_PHONE, re.ASCII), _plus_phone),
    RedactionRule(
        "phone", (), LazyPattern(rf"{_NOT_INSIDE}(?:{_NATIONAL_PHONE}){_NOT_FOLLOWED}", re.ASCII), _phone
    ),
    RedactionRule("phone", (), LazyPattern(_LABELLED_PHONE, re.IGNORECASE | re.ASCII), _labelled_phone),
)
# Seven digits with only the usual separators between them, not inside a word or hash, not an ISO date.
# Both patterns start with a character class, which makes the search quick.
MANY_DIGITS = LazyPattern(r"\d(?<![A-Za-z0-9_]\d)(?!\d{3}-\d\d-\d\d(?!\d))(?:[ .()-]{0,2}\d){6}", re.ASCII)
IBAN_START = LazyPattern(r"[A-Z][A-Z]\d\d[ -]?[A-Z0-9]{4}", re.ASCII)

# Raise it when the rules change what they find: derived text made under older rules is then made again.
REDACTION_VERSION = "1"

# Marks from one pass may make another rule match in the next; two passes settle all real text.
_MOST_PASSES = 8
_RULES = (*CREDENTIAL_RULES, *ASSIGNMENT_RULES, *WORD_RULES)


# Parts that several triggers share and most words lack.
_GATES = ("pass", "pin", *"_-=:.@~\"'/")
MOST_WORDS, LONGEST_WORD = 50_000, 40  # limits of the cache of words


def _group_triggers(
    triggers: Iterable[tuple[str, int]],
) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    """Group triggers by a part that they share: a word without that part skips the whole group."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for trigger, rule in triggers:
        gate = next((gate for gate in _GATES if gate in trigger), "")
        groups.setdefault(gate, []).append((trigger, rule))
    return tuple((gate, tuple(group)) for gate, group in groups.items())


# Each rule has a bit, and so has each other feature that a word may have.
_TRIGGERS = tuple((trigger, 1 << place) for place, rule in enumerate(_RULES) for trigger in rule.triggers)
_ALL = (1 << len(_RULES)) - 1
_DIGIT, _LONG, _IBAN_GATE, _SPACED = (1 << (len(_RULES) + number) for number in range(4))
_WORDS = tuple((trigger, rule) for trigger, rule in _TRIGGERS if trigger.split() == [trigger])
_MULTI_WORD = tuple(pair for pair in _TRIGGERS if pair not in _WORDS)  # triggers that contain a blank
_EXACT = tuple(pair for pair in _WORDS if pair[0] != pair[0].lower())
_FOREIGN = tuple(pair for pair in _WORDS if not pair[0].isascii())
_FOLDED = _group_triggers(
    [
        *(pair for pair in _WORDS if pair not in _EXACT and pair not in _FOREIGN),
        *((trigger.split()[0], _SPACED) for trigger, _ in _MULTI_WORD),
    ]
)
_ANY_DIGIT = LazyPattern(r"\d", re.ASCII)
_LONG_RUN = LazyPattern(r"[A-Za-z0-9+/_\-]{20}", re.ASCII)
_IBAN_BEGINS = LazyPattern(r"[A-Z][A-Z]\d\d", re.ASCII)


class _Signs(dict[str, int]):
    """A cache of the feature bits of each word. Words recur, so most texts cost little more than splitting them."""

    def __missing__(self, word: str) -> int:
        signs = _find_signs(word)
        if len(word) <= LONGEST_WORD:
            if len(self) >= MOST_WORDS:
                self.clear()
            self[word] = signs
        return signs

    def of(self, text: str) -> int:
        """The bits of all words of a text."""
        return reduce(or_, set(map(self.__getitem__, text.split())), 0)


_signs = _Signs()


@dataclass(frozen=True, slots=True)
class RedactionFinding:
    """What kind of thing was redacted, and how often; never the thing itself."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class Redaction:
    """Redacted text, and what was redacted."""

    text: str
    findings: tuple[RedactionFinding, ...]


@dataclass(frozen=True, slots=True)
class RedactedMetadata:
    """A redacted JSON value, and what was redacted."""

    value: Any
    findings: tuple[RedactionFinding, ...]


def redact(text: str) -> Redaction:
    """Replace each secret and each piece of personal data by a mark such as `[redacted:email]`.

    Redacting the result again changes nothing.
    """
    counts: Counter[str] = Counter()
    text = _redact(text, counts)
    return Redaction(text, _findings(counts))


def redact_metadata(value: Any) -> RedactedMetadata:
    """Redact JSON: every string, every key, and every value under a key that names a secret."""
    counts: Counter[str] = Counter()
    value = _redact_value(value, counts)
    return RedactedMetadata(value, _findings(counts))


def _findings(counts: Counter[str]) -> tuple[RedactionFinding, ...]:
    return tuple(RedactionFinding(kind, count) for kind, count in sorted(counts.items()))


def _redact(text: str, counts: Counter[str]) -> str:
    for _ in range(_MOST_PASSES):
        rules = _applicable_rules(text)
        if not rules:
            return text
        before = text
        for rule in rules:
            text = _apply(rule, text, counts)
        if text == before:
            return text
    return text


def _applicable_rules(text: str) -> list[RedactionRule]:
    """The rules that have a trigger in the text and whose gate it matches."""
    signs = _signs.of(text)
    if not signs:
        return []
    low = text.lower()
    if signs & _SPACED:
        signs |= reduce(or_, [rule for trigger, rule in _MULTI_WORD if trigger in low], 0)
    rules = [rule for rule in _rules_of_bits(signs & _ALL) if rule.gate is None or rule.gate.search(low)]
    if signs & _LONG and RANDOM_RULE.pattern.search(text):
        rules.append(RANDOM_RULE)
    if signs & _IBAN_GATE and IBAN_START.search(text):
        rules.append(IBAN_RULE)
    if signs & _DIGIT and MANY_DIGITS.search(text):
        rules.extend(NUMBER_RULES)
    return rules


@lru_cache(4096)
def _rules_of_bits(signs: int) -> tuple[RedactionRule, ...]:
    return tuple(rule for bit, rule in enumerate(_RULES) if signs >> bit & 1)


def _find_signs(word: str) -> int:
    low = word.lower()
    signs = [rule for trigger, rule in _EXACT if trigger in word]
    for gate, triggers in _FOLDED:
        if gate in low:
            signs += [rule for trigger, rule in triggers if trigger in low]
    if not low.isascii():
        signs += [rule for trigger, rule in _FOREIGN if trigger in low]
    if _ANY_DIGIT.search(word):
        signs.append(_DIGIT)
        if _IBAN_BEGINS.search(word):
            signs.append(_IBAN_GATE)
    if len(word) >= 20 and _LONG_RUN.search(word):
        signs.append(_LONG)
    return reduce(or_, signs, 0)


def _apply(rule: RedactionRule, text: str, counts: Counter[str]) -> str:
    def replace_match(match: re.Match[str]) -> str:
        new = rule.replace(match) if rule.replace else redaction_mark(rule.kind)
        if new is None:
            return match[0]
        counts[rule.kind] += 1
        return new

    return rule.pattern.sub(replace_match, text)


def _redact_value(value: Any, counts: Counter[str]) -> Any:
    if isinstance(value, str):
        return _redact(value, counts)
    if isinstance(value, Mapping):
        result: dict[str, Any] = {}
        for key, item in value.items():
            name = _redact(str(key), counts)
            while name in result:  # two keys may get the same mark; keep both values
                name += "'"
            result[name] = _redact_item(name, item, counts)
        return result
    if isinstance(value, list | tuple):
        return [_redact_value(item, counts) for item in value]
    return value


def _redact_item(name: str, item: Any, counts: Counter[str]) -> Any:
    kind = secret_kind(name)
    if kind is None or isinstance(item, bool) or item is None:
        return _redact_value(item, counts)
    if isinstance(item, list | tuple):
        return [_redact_item(name, part, counts) for part in item]
    is_secret = isinstance(item, str) and item != "" and is_quoted_secret(kind, item)
    if is_secret or (isinstance(item, int | float) and kind in ("password", "secret")):
        counts[kind] += 1
        return redaction_mark(kind)
    return _redact_value(item, counts)

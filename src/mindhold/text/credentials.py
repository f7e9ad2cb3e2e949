"""Secrets in text: keys by their shape, and values that are assigned to a name that tells a secret."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

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
    *("비밀번호", "비번", "암호", "패스워드", "パスワード", "パスコード", "暗証番号", "密码", "密碼", "口令"),
    *("contraseña", "contrasena", "senha", "пароль"),
)
# kind, names, triggers, and the end of the names as a gate: literal first, so that the search is quick.
_NOUNS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    (
        "password",
        r"password|passwd|passphrase|passwort|kennwort|passcode|mot de passe|(?<![a-z])pass(?=[\"']?\s?[=:])|pwd|(?<![a-z])pw(?=[=:])"
        r"|(?<![a-z])pin(?=[=:]|\scode|\sis\s\d)(?:\scode)?",
        tuple(
            "passw|kennwort|passphrase|passcode|passe|pass=|pass:|pass\"|pass =|pass'|pwd|pw=|pw:|pin=|pin:|pin code|pin is".split(
                "|"
            )
        ),
        r"(?:p(?:ass(?:w(?:or[dt]|d)|phrase|code|e)?|wd?|in(?: code)?)|kennwort)",
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
    r"|[ \t](?:is|was|to|ist|lautet|es|est|é)(?: now)?:?[ \t]{1,2})"
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
PLAIN_VALUE = LazyPattern(
    r"(?:none|null|nil|true|false|undefined|str|string|bytes?|int|integer|number|bool|boolean|any|object|optional|text|varchar"
    r"|required|missing|empty|hidden|unset|changed|invalid|valid|expired|wrong|unknown|encrypted|hashed|rotated|stored|revoked"
    r"|secretstr|redacted|masked|reset|default|nonce|self|this|await|new|input|values?|users?|username|name|prompt|readonly|void"
    r"|char|const|let|var|the|an?|not|in|see|uses?|must|should|never|always|from|per|only|kept|login|policy|fields?|yes|no|n/a"
    r"|tbd|todo|env|environ|ok|okay|correct|incorrect|strong|weak|short|long|secure|plain|plaintext)"
    r"$|[a-z_.-]*(?:password|passwd|pwd|secret|token|api_?key|passphrase)[a-z_.-]*$",
    re.IGNORECASE,
)
ALGORITHM = LazyPattern(
    r"sha-?\d|md5|base64|bcrypt|argon2|utf-?8|oauth|[hrep]s(?:256|384|512)|x509|ed25519|pbkdf2", re.IGNORECASE
)
HARMLESS_VALUE = LazyPattern(
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
ASCII_PART = LazyPattern(r"[\x21-\x7e]*[^\x00-\x20\x7f-\U0010ffff.,;:?]")
_COPULA = LazyPattern(r"[ \t]*[^\W\d_]")
_SORTED_ID = LazyPattern(r"[0-7][0-9a-hjkmnp-tv-z]{25}$", re.IGNORECASE)  # such as a memory's id


def count_class_changes(value: str) -> int:
    """How often upper case, lower case and digits alternate: rarely in words, often in keys."""
    return len(_CHANGE.findall(value))


def looks_random(value: str) -> bool:
    """Whether the value mixes character classes like a random key; not hex, joined words or an id that sorts by time."""
    if _SORTED_ID.match(value):
        return False
    if len(value) < 20 or _HEX.match(value) or ALGORITHM.match(value) or not any(c.isdigit() for c in value):
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
    if is_placeholder(value) or HARMLESS_VALUE.match(value) or PLAIN_VALUE.match(value):
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
        or HARMLESS_VALUE.match(value)
        or PLAIN_VALUE.match(value)
        or ALGORITHM.search(value)
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
        core = ASCII_PART.match(bare)
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

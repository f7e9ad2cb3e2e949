"""Secrets that betray themselves by their own shape: vendor tokens, key blocks, headers, URLs."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass

from mindhold.engine.text.expression import Expression

Replace = Callable[[re.Match[str]], str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """Where one of `triggers` occurs (in any case, if it is in lower case), every match of `pattern` is a secret of `kind`.

    `replace` gives the new text for a match, None to leave it; without it the whole match becomes the mark.
    `gate` is a cheaper pattern that the text in lower case must hold as well.
    """

    kind: str
    triggers: tuple[str, ...]
    pattern: Expression
    replace: Replace | None = None
    gate: Expression | None = None


def mark(kind: str) -> str:
    return f"[redacted:{kind}]"


_EDGE = r"(?<![A-Za-z0-9_])"  # ASCII on purpose: Korean particles stick to what they follow

# kind, triggers, pattern. A pattern is anchored on a literal and bounded, so that no text is slow.
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
_PLACEHOLDER = Expression(
    r"\[redacted\b|[<{*…]|\$[A-Za-z_{(]|%\w*[%(s]|x{3,}$|\.{3}|(?:your|my|example|dummy|placeholder|insert)[-_ ]",
    re.IGNORECASE,
)


def is_placeholder(value: str) -> bool:
    """Whether the value only stands for a secret: `${TOKEN}`, `<password>`, `****`, `your-key-here`."""
    return _PLACEHOLDER.match(value) is not None


def _url(match: re.Match[str]) -> str | None:
    user, password = match.groups()
    return None if is_placeholder(password) else f"{user}:{mark('password')}@"


def _bearer(match: re.Match[str]) -> str | None:
    scheme, token = match.groups()
    looks_random = any(c.isdigit() for c in token) or (len(token) >= 24 and not token.islower())
    return f"{scheme}{mark('auth-header')}" if looks_random else None


def _basic(match: re.Match[str]) -> str | None:
    scheme, token = match.groups()
    try:
        decoded = base64.b64decode(token + "=" * (-len(token) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return f"{scheme}{mark('auth-header')}" if b":" in decoded else None


def _curl_user(match: re.Match[str]) -> str | None:
    option, user, password = match.groups()
    return None if is_placeholder(password) else f"{option}{user}:{mark('password')}"


def _glued_option(match: re.Match[str]) -> str:
    return f"{match[1]}{mark('password')}"


RULES: tuple[Rule, ...] = (
    Rule("private-key", ("private key",), Expression(_KEY_BLOCK)),
    *(
        Rule(kind, tuple(triggers.split()), Expression(_EDGE + pattern, re.ASCII))
        for kind, triggers, pattern in _SHAPES
    ),
    Rule(
        "password",
        ("://",),
        Expression(r"(?<=://)([^\s:@/?#\"'<>]{0,128}):([^\s/?\"'<>]{1,256})@(?=[\w\[])"),
        _url,
    ),
    Rule(
        "auth-header",
        ("bearer",),
        Expression(r"(\bbearer\s+)([\w~+/.=-]{12,4096})", re.IGNORECASE | re.ASCII),
        _bearer,
    ),
    Rule(
        "auth-header",
        ("basic",),
        Expression(r"(\bbasic\s+)([A-Za-z0-9+/]{6,512}={0,2})", re.IGNORECASE),
        _basic,
    ),
    Rule(
        "password",
        ("curl",),
        Expression(r"(\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]['\"]?)([^\s:'\"]{1,64}):([^\s'\"]{1,128})"),
        _curl_user,
    ),
    Rule(
        "password",
        ("mysql",),
        Expression(r"(\bmysql(?:dump|admin)?\b[^\n]{0,200}?\s-p)(?!\[redacted)[^\s'\"$<-][^\s'\"]{2,64}"),
        _glued_option,
    ),
)

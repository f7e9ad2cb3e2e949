"""Strict parsing of a request's path, body, query and headers, and the ETag conditions of a resource."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes

from starlette.requests import Request
from starlette.types import Scope

from mindhold.contracts.rest.resource import Resource
from mindhold.model.errors import InvalidInput
from mindhold.operations import Output

API = "/api"
AGENT = "x-mindhold-agent"
KEY = "idempotency-key"
DEEPEST = 100
LARGEST = 2**63 - 1
LONGEST_TOLD = 100
MOST_WORDS = 1_000  # values in a query
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii"})
# Matches text that may contain half a surrogate pair or a number too large for a store; only such bodies are checked.
_DOUBTFUL = re.compile(rb"\\u[dD]|\d{19}|\d[eE]\+?\d{3}")
_HALF = re.compile("[\ud800-\udfff]")


class InvalidJson(InvalidInput):
    """The body is not valid JSON."""

    code = "INVALID_JSON"


class UnsupportedMedia(InvalidInput):
    """The body has an unsupported media type."""

    code = "UNSUPPORTED_MEDIA_TYPE"


def is_api_path(scope: Scope) -> bool:
    """Whether a request is for the REST API."""
    path: str = scope["path"]
    return path == API or path.startswith(f"{API}/")


def path_of(scope: Scope) -> str:
    """The path as it was sent, without a slash at the end, decoded except for `/` and `%` inside a segment.

    The server also decodes `%2F`, which would split a name with a slash into two segments. Raises InvalidInput.
    """
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    try:
        parts = [unquote_to_bytes(part).decode("utf-8") for part in raw.partition(b"?")[0].split(b"/")]
    except UnicodeDecodeError:
        raise InvalidInput("The path is no UTF-8.", advice="Encode names as UTF-8, then with %.") from None
    if any("\x00" in part for part in parts):
        raise InvalidInput("The path has a NUL character.", advice="No name has one.")
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts).removesuffix("/")


def path_names(scope: Scope) -> dict[str, str]:
    """The names in a matched path, decoded."""
    return {word: unquote(value) for word, value in scope["path_params"].items()}


async def body_of(resource: Resource, request: Request) -> Mapping[str, Any] | None:
    """The JSON body; None if the resource takes none. Raises InvalidInput."""
    expected = bool(resource.in_body())
    if request.method in ("GET", "HEAD"):
        return None
    raw = await request.body()
    if not raw.strip():
        return {} if expected else None
    _check_media(request)
    body = parse_json(raw)
    if not isinstance(body, dict):
        raise InvalidInput("The body must be a JSON object.", advice='Send {"name": value, ...}.')
    if not expected and body:
        raise InvalidInput("No body is taken here.", advice="Say it in the path and the query.")
    return body if expected else None


def parse_json(raw: bytes) -> Any:
    """Parse JSON that every store can save. Raises InvalidJson."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _place(raw[: error.start])
        raise _unreadable(line, column, "not UTF-8") from None
    try:
        value = json.loads(text, parse_constant=_no_number, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise _unreadable(error.lineno, error.colno, error.msg) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:  # from int(), for thousands of digits
        raise _too_large() from None
    nested = raw.count(b"[") + raw.count(b"{") > DEEPEST
    return _checked(value, DEEPEST) if nested or _DOUBTFUL.search(raw) else value


def query_of(request: Request) -> list[tuple[str, str]]:
    """Names and values of the query in order. Raises InvalidInput."""
    raw: bytes = request.scope["query_string"]
    if not raw:
        return []
    try:
        pairs = parse_qsl(
            raw.decode("ascii", "strict"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_WORDS,
        )
    except UnicodeError:
        raise InvalidInput("The query is no UTF-8.", advice="Encode it as UTF-8, then with %.") from None
    except ValueError:
        raise InvalidInput(f"The query has more than {MOST_WORDS} values.") from None
    if any("\x00" in value for pair in pairs for value in pair):
        raise InvalidInput("The query has a NUL character.", advice="Leave it out.")
    return pairs


def header(request: Request, name: str) -> str | None:
    """A header decoded as UTF-8; None if it is missing. Raises InvalidInput if it is repeated or no UTF-8."""
    values = request.headers.getlist(name)
    if not values:
        return None
    if len(values) > 1:
        raise InvalidInput(f"{name} is given twice.", advice="Give it once.")
    try:
        return values[0].encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise InvalidInput(f"{name} is no UTF-8.") from None


def _check_media(request: Request) -> None:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMedia("The body must not be compressed.", advice="Send it as it is.")
    # A missing content type is refused: pages of other sites can send that without a preflight request.
    kind, _, rest = request.headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise UnsupportedMedia("The body must be JSON.", advice="Send `Content-Type: application/json`.")
    for parameter in rest.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip(' "').lower() not in _CHARSETS:
            raise UnsupportedMedia("The body must be UTF-8.", advice="Send it as UTF-8.")


def _checked(value: Any, left: int) -> Any:
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise _too_large()
    if isinstance(value, int) and abs(value) > LARGEST:
        raise _too_large()
    if not isinstance(value, list | dict):
        return value
    if not left:
        raise _too_deep()
    if isinstance(value, list):
        return [_checked(item, left - 1) for item in value]
    return {_HALF.sub("\ufffd", key): _checked(item, left - 1) for key, item in value.items()}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidJson(
            f"The body has {twice[:LONGEST_TOLD]!r} twice in one object.", advice="Give it once."
        )
    return members


def _no_number(word: str) -> Any:
    raise InvalidJson(f"The body is no JSON: {word} is no number.", advice="Send null, or text.")


def _too_large() -> InvalidJson:
    return InvalidJson("The body has a number that is too large.", advice="Send it as text.")


def _too_deep() -> InvalidJson:
    return InvalidJson(f"The body is nested more than {DEEPEST} levels deep.", advice="Send it flatter.")


def _unreadable(line: int, column: int, reason: str) -> InvalidJson:
    return InvalidJson(
        f"The body is no JSON: line {line}, column {column}: {reason}.", advice="Send an object, as UTF-8."
    )


def _place(before: bytes) -> tuple[int, int]:
    return before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1


ETAG, EXPECTED = "etag", "expected"  # field of an output, field of an input
ANY, WEAK = "*", "W/"
_TAGS = re.compile(r'(?:W/)?"([^"]*)"')


def conditions(resource: Resource, request: Request) -> dict[str, Any]:
    """The input fields that If-Match sets. Raises InvalidInput for a condition that would be ignored."""
    match = header(request, "if-match")
    heeded = resource.versioned and EXPECTED in resource.serves.takes.model_fields
    changes = resource.writes and resource.method != "GET"
    if changes and "if-none-match" in request.headers:
        raise InvalidInput("If-None-Match is for reading.", advice="Leave it out.")
    if match is None or not changes:
        return {}
    if not heeded:
        raise InvalidInput("If-Match is not heeded here.", advice="Leave it out.")
    if match.strip() == ANY:
        return {EXPECTED: ANY}
    if match.lstrip().startswith(WEAK):
        raise InvalidInput(
            "If-Match takes no weak ETag.", advice="Send it as it was told; what made it weak was on the way."
        )
    tags = _TAGS.findall(match)
    if len(tags) != 1 or _TAGS.sub("", match, count=1).strip():
        raise InvalidInput(
            "If-Match must have one ETag.", advice='Send it as it was told, in quotes, or "*".'
        )
    return {EXPECTED: tags[0]}


def etag_of(resource: Resource, output: Output) -> str | None:
    """The ETag header of the output; None if it has no version."""
    own = getattr(output, ETAG, None) if resource.versioned else None
    return f'"{own}"' if own else None


def is_known(etag: str | None, request: Request) -> bool:
    """Whether the client has this version already (If-None-Match). Weak ETags count, since this is for reading only."""
    condition = request.headers.get("if-none-match")
    if condition is None or etag is None:
        return False
    return condition.strip() == ANY or etag.strip('"') in _TAGS.findall(condition)

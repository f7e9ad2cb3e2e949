"""A server's error, as the one that the operation raised there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from mindhold.model import errors
from mindhold.model.errors import MindholdError, ServerAway, ServerError

# Codes that the HTTP door alone has; the others are the tree's own.
_OF_THE_DOOR: Mapping[str, type[MindholdError]] = {
    "PROJECT_NOT_FOUND": errors.ScopeNotFound,
    "EMBEDDING_SERVICE_ERROR": errors.ModelError,
    "PRECONDITION_FAILED": errors.Changed,
    "TOO_LARGE": errors.ContentTooLarge,
}
# What another code is, by the status that it came with.
_BY_STATUS: Mapping[int, type[MindholdError]] = {
    400: errors.InvalidInput,
    401: errors.Refused,
    403: errors.Refused,
    404: errors.NotFound,
    405: errors.InvalidInput,
    408: ServerAway,
    409: errors.Conflict,
    412: errors.Changed,
    413: errors.ContentTooLarge,
    415: errors.InvalidInput,
    421: errors.Refused,
    422: errors.InvalidInput,
    428: errors.Refused,
    429: ServerAway,
    502: ServerAway,
    503: ServerAway,
    504: ServerAway,
}
# What some have besides words, and the word of an answer that says it.
_DETAILS: Mapping[type[MindholdError], Mapping[str, str]] = {
    errors.MemoryNotFound: {"memory_id": "memory_id"},
    errors.ScopeNotFound: {"name": "project_id"},
    errors.BrokenJson: {"line": "line", "column": "column"},
    errors.WrongShape: {"line": "line", "column": "column"},
}
_NOTHING = "There is nothing here."  # of a path that no Mindhold serves
_SAME_PLACE = "Give the address that `mindhold serve` tells, such as http://localhost:3333, without /mcp or /api behind it."
HIDDEN = "(hidden)"
_LONGEST_WORDS = 2_000


@cache
def by_code() -> Mapping[str, type[MindholdError]]:
    """Every error of the tree; of two with one code, the more general."""
    found: dict[str, type[MindholdError]] = {}
    waiting: list[type[MindholdError]] = [MindholdError]
    while waiting:
        kind = waiting.pop(0)
        found.setdefault(kind.code, kind)
        waiting += [one for one in kind.__subclasses__() if one.__module__ == errors.__name__]
    return {**found, **_OF_THE_DOOR}


def told_by(status: int, content: bytes, *, where: str, key: str = "") -> MindholdError:
    """The error in an answer; the key isn't repeated, whoever repeats it."""
    document = _document(content)
    code, words = document.get("code"), document.get("error")
    if not isinstance(code, str) or not isinstance(words, str):
        unclear = ServerAway if _BY_STATUS.get(status) is ServerAway else ServerError
        return unclear(f"{where} answers with HTTP {status}, and not as Mindhold does.", advice=_SAME_PLACE)
    if code == errors.NotFound.code and words == _NOTHING:
        return ServerError(f"{where} has nothing where this was asked.", advice=_SAME_PLACE)
    details, advice = document.get("details"), document.get("advice")
    told = f"{words}: {details}" if isinstance(details, str) else words
    kind = by_code().get(code) or _BY_STATUS.get(status) or ServerError
    return _made(kind, code, _plain(told, key), advice=_plain(str(advice or ""), key), details=document)


def _made(
    kind: type[MindholdError], code: str, message: str, *, advice: str, details: Mapping[str, Any]
) -> MindholdError:
    """Without the error's own way of wording: it was worded there."""
    error = kind.__new__(kind, message)
    MindholdError.__init__(error, message, advice=advice)
    error.code = code
    for name, word in _DETAILS.get(kind, {}).items():
        setattr(error, name, details.get(word, ""))
    return error


def _document(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _plain(text: str, key: str) -> str:
    return (text.replace(key, HIDDEN) if key else text)[:_LONGEST_WORDS]

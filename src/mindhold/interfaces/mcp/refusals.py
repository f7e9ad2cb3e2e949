"""What is no message of the protocol: refused with our code, and with the id of whoever waits for an answer."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
from pydantic import ValidationError

NO_JSON = "That is no JSON that can be read."
NO_UNICODE = "That holds text that is no valid Unicode."
TOO_DEEP = "That is nested too deeply."
NO_MESSAGE = "That is no JSON-RPC message."
NO_BATCHES = "Several messages at once are not taken: send each by itself."


def refusal(error: ValidationError) -> types.JSONRPCError:
    """The answer to what the SDK could not read."""
    given = _given(error)
    raw = isinstance(given, str | bytes | bytearray)
    try:
        message = json.loads(given) if raw else given
    except (ValueError, RecursionError):
        return _refused(types.PARSE_ERROR, NO_JSON, None)
    if raw:  # Python reads it, the SDK does not: half a character, or too many levels
        halved = any(0xD800 <= ord(sign) <= 0xDFFF for sign in json.dumps(message, ensure_ascii=False))
        return _refused(types.PARSE_ERROR, NO_UNICODE if halved else TOO_DEEP, _id_of(message))
    words = NO_BATCHES if isinstance(message, list) else NO_MESSAGE
    return _refused(types.INVALID_REQUEST, words, _id_of(message))


def _refused(code: int, words: str, request: types.RequestId | None) -> types.JSONRPCError:
    told = types.ErrorData(code=code, message=words, data={"code": "INVALID_INPUT"})
    return types.JSONRPCError(jsonrpc="2.0", id=request, error=told)


def _given(error: ValidationError) -> Any:
    inputs = [one["input"] for one in error.errors(include_url=False)]
    return next((one for one in inputs if isinstance(one, dict) and "jsonrpc" in one), inputs[0])


def _id_of(message: Any) -> types.RequestId | None:
    """Whom to answer, where that can be told: a client waits for its own id."""
    found = message.get("id") if isinstance(message, dict) else None
    usable = isinstance(found, int | str) and not isinstance(found, bool) and str(found).isprintable()
    return found if usable else None

"""Answers that every route and every guard gives alike: JSON with what is wrong, a code, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mindhold.interfaces.http.stopping import Stopped
from mindhold.model.errors import (
    Conflict,
    InvalidInput,
    MindholdError,
    NotFound,
    Refused,
    SettingsError,
    StoreError,
)

_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}
_WORDS = {404: "There is nothing here.", 405: "This can't be done here."}
_STATUSES: tuple[tuple[type[MindholdError], int], ...] = (
    (InvalidInput, 400),
    (NotFound, 404),
    (Conflict, 409),
    (Refused, 403),
    (SettingsError, 503),  # a store that the server isn't set up for
    (StoreError, 503),
    (Stopped, 503),
)


def refusal(
    status: int,
    error: str,
    code: str,
    *,
    advice: str = "",
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Response:
    """What went wrong."""
    told = {"error": error, "code": code, **more} | ({"advice": advice} if advice else {})
    return JSONResponse(told, status_code=status, headers=headers)


def failure(error: MindholdError) -> Response:
    """An error of ours, by its kind."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    return refusal(status, error.message, error.code, advice=error.advice)


async def on_http_error(_request: Request, error: Exception) -> Response:
    """No such route, or not with that method."""
    assert isinstance(error, HTTPException)
    words = _WORDS.get(error.status_code, error.detail)
    code = _CODES.get(error.status_code, "HTTP_ERROR")
    return refusal(error.status_code, words, code, headers=error.headers)


async def on_our_error(_request: Request, error: Exception) -> Response:
    """What an operation raised and no route translated."""
    assert isinstance(error, MindholdError)
    return failure(error)


async def on_any_error(_request: Request, _error: Exception) -> Response:
    """The client gets words; the log gets the trace."""
    return refusal(
        500, "Something went wrong inside Mindhold.", "INTERNAL", advice="`mindhold doctor` may help."
    )

"""What is wrong with a caller's input, in words that say what to do."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from mindhold.model.errors import InvalidInput

LONGEST_QUOTE = 60
_KINDS = {
    "string_type": "must be text",
    "string_sub_type": "must be text",
    "string_unicode": "must be valid Unicode text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "datetime_parsing": "must be a time such as 2026-03-01T09:00:00Z",
    "datetime_from_date_parsing": "must be a time such as 2026-03-01T09:00:00Z",
    "datetime_type": "must be a time such as 2026-03-01T09:00:00Z",
}
_LIMITS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
}
_COUNTED = dict.fromkeys(("too_short", "too_long"), "it had {}")


def invalid(
    error: ValidationError, *, known: list[str], named: Callable[[list[str]], str] = ".".join
) -> InvalidInput:
    """Our error for pydantic's; `known` are the names that there are, `named` turns a place into the caller's word."""
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    name = named(place) or "The input"
    kind, context = first["type"], first.get("ctx", {})
    if kind == "missing":
        return InvalidInput(f"{name} is missing.", advice="Give it and call again.")
    if kind == "extra_forbidden":
        close = get_close_matches(place[-1], known, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Known are: {', '.join(known) or 'none'}."
        return InvalidInput(f"{name} is not known here.", advice=hint)
    if kind == "string_too_short" and not first.get("input"):
        return InvalidInput(f"{name} must not be empty.")
    if kind in _LIMITS:
        words = _LIMITS[kind].format(**context)
    else:
        words = _KINDS.get(kind, first["msg"][:1].lower() + first["msg"][1:])
    had = _COUNTED.get(kind, "it was {}").format(context.get("actual_length") or _quoted(first.get("input")))
    return InvalidInput(f"{name} {words}; {had}.")


def _quoted(given: Any) -> str:
    text = repr(given) if not isinstance(given, list | dict) else f"a {type(given).__name__}"
    from mindhold.engine.text.redact import redact  # its patterns are for those who need them

    text = redact(text).text  # while it is whole
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…"

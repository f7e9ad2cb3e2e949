"""JSON by the interpreter's own scanner, because importing `json` takes as long as the rest of a hook."""

from __future__ import annotations

TYPE_CHECKING = False


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    _quote: Callable[[str], str]
    _make_scanner: Callable[[object], Callable[[str, int], tuple[Any, int]]] | None
else:
    try:
        from _json import encode_basestring_ascii as _quote
        from _json import make_scanner as _make_scanner
    except ImportError:  # another interpreter
        from json.encoder import encode_basestring_ascii as _quote

        _make_scanner = None

_BLANK = " \t\n\r"
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class _ScannerOptions:
    """The options that the scanner reads."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = _CONSTANTS.__getitem__


def parse_json(text: str) -> Any:
    """Parse a JSON text. Raises ValueError, also for nesting that is too deep."""
    try:
        if _make_scanner is None:
            import json

            return json.loads(text, strict=False)
        text = text.strip(_BLANK)
        value, end = _make_scanner(_ScannerOptions)(text, 0)
    except (StopIteration, RecursionError, SystemError) as error:
        # SystemError if `json` isn't loaded to raise its own error.
        raise ValueError("no JSON") from error
    if end != len(text):
        raise ValueError("more than one value")
    return value


def parse_record(raw: bytes) -> dict[str, Any]:
    """Parse bytes in any state as a JSON object. Raises ValueError."""
    value = parse_json(raw.decode("utf-8", "replace").removeprefix("\ufeff"))
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def write_json(value: Any) -> str:
    """The value as JSON in ASCII on one line. Raises TypeError for a value that JSON can't represent."""
    if isinstance(value, str):
        return _quote(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value) if value - value == 0 else "null"
    if isinstance(value, dict):
        return (
            "{" + ",".join(f"{write_json(str(key))}:{write_json(item)}" for key, item in value.items()) + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(write_json, value)) + "]"
    raise TypeError(f"{type(value).__name__} has no form in JSON")

"""JSON by the interpreter's own scanner, because importing `json` takes as long as the rest of a hook."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    _quoted: Callable[[str], str]
    _scanner_by: Callable[[object], Callable[[str, int], tuple[Any, int]]] | None
else:
    try:
        from _json import encode_basestring_ascii as _quoted
        from _json import make_scanner as _scanner_by
    except ImportError:  # another interpreter
        from json.encoder import encode_basestring_ascii as _quoted

        _scanner_by = None

_BLANK = " \t\n\r"
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class _Rules:
    """What the scanner asks for."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = _CONSTANTS.__getitem__


def parse_json(text: str) -> Any:
    """Raises ValueError, also for what is nested too deeply."""
    try:
        if _scanner_by is None:
            return _by_library(text)
        text = text.strip(_BLANK)
        value, end = _scanner_by(_Rules)(text, 0)
    except (StopIteration, RecursionError, SystemError) as error:
        # The last where `json` isn't there to raise its own.
        raise ValueError("no JSON") from error
    if end != len(text):
        raise ValueError("more than one value")
    return value


def parse_record(raw: bytes) -> dict[str, Any]:
    """An object, from bytes in any state. Raises ValueError."""
    value = parse_json(raw.decode("utf-8", "replace").removeprefix("\ufeff"))
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def write_json(value: Any) -> str:
    """In ASCII, on one line. Raises TypeError for what JSON has no form for."""
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value) if value - value == 0 else "null"
    if isinstance(value, dict):
        return "{" + ",".join(f"{write_json(str(key))}:{write_json(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(write_json, value)) + "]"
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _by_library(text: str) -> Any:
    import json

    return json.loads(text, strict=False)

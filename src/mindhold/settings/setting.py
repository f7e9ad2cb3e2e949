"""How one setting is declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any


def setting(
    default: Any,
    description: str,
    *,
    aliases: tuple[str, ...] = (),
    least: float | None = None,
    most: float | None = None,
    doubt: Callable[[Any], str] | None = None,
    secret: bool = False,
) -> Any:
    """A `secret` is never shown. `doubt` says what is wrong with a value of the right type; nothing when it will do."""
    return field(
        default=default,
        repr=not secret,
        metadata={
            "description": description,
            "aliases": aliases,
            "least": least,
            "most": most,
            "doubt": doubt,
            "secret": secret,
        },
    )

"""What a text says that isn't to be captured, and that nothing is to be added to."""

from __future__ import annotations

OWN_CALL_MARK = "[mindhold: own call]"  # a line of every prompt of ours to a language model
SKIP_MARK = "[skip-hook]"  # written by a person


def refused(*texts: object) -> bool:
    """Whether one of them bears a mark."""
    return any(isinstance(text, str) and (SKIP_MARK in text or OWN_CALL_MARK in text) for text in texts)

"""Recaps: memories that stand for the messages of a conversation, for a month of those, or for a year."""

from __future__ import annotations

from dataclasses import dataclass

RECAP = (
    "mindhold.recap"  # in the metadata of each: which part of its conversation, or which time, it stands for
)
SOURCE = "summary"  # Provenance.source of one
TAG = "summary"
CONVERSATION, MONTH, YEAR = 1, 2, 3  # levels
# What each is about, so that a store finds those of a level.
TOPICS = {CONVERSATION: "conversation summary", MONTH: "summary of a month", YEAR: "summary of a year"}


@dataclass(frozen=True, slots=True)
class Recaps:
    """The knobs; app fills them from the settings."""

    enabled: bool = True
    from_messages: int = 8  # a conversation that ends with fewer is its own summary
    every_messages: int = 50  # most that one part of a long conversation stands for
    old_days: int = 180  # from when on those of a month become one
    longest_tokens: int = 400

"""What can be set of the summaries of conversations."""

from __future__ import annotations

from dataclasses import dataclass

from mindhold.settings.setting import setting


@dataclass(frozen=True, slots=True)
class RecapSettings:
    enabled: bool = setting(
        True, "Whether conversations of the log that end or grow long are summarised by themselves."
    )
    from_messages: int = setting(
        8, "Messages from which on a conversation that ends is summarised.", least=2, most=100_000
    )
    every_messages: int = setting(
        50,
        "Messages after which one that goes on is, and the most that one part stands for.",
        least=4,
        most=500,
    )
    old_days: int = setting(
        180, "Days after which the summaries of a month become one.", least=1, most=36_500
    )
    longest_tokens: int = setting(400, "Most tokens of one summary.", least=80, most=2_000)

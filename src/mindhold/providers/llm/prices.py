"""What language services ask for their models, as they published it; llm.price_in and llm.price_out override it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mindhold.ports.ladder import Tariff

# Dollars a million tokens, sent and answered. Models whose price depends on more than that are left out.
_ANTHROPIC = {
    "claude-opus-5-5": Tariff(4.00, 20.00),
    "claude-opus-5": Tariff(5.00, 25.00),
    "claude-opus-4-8": Tariff(5.00, 25.00),
    "claude-opus-4-7": Tariff(5.00, 25.00),
    "claude-opus-4-6": Tariff(5.00, 25.00),
    "claude-opus-4-5": Tariff(5.00, 25.00),
    "claude-opus-4-1": Tariff(15.00, 75.00),
    "claude-opus-4": Tariff(15.00, 75.00),
    "claude-sonnet-5-5": Tariff(2.00, 10.00),
    "claude-sonnet-4-6": Tariff(3.00, 15.00),
    "claude-sonnet-4-5": Tariff(3.00, 15.00),
    "claude-sonnet-4": Tariff(3.00, 15.00),
    "claude-haiku-4-5": Tariff(1.00, 5.00),
    "claude-3-5-haiku": Tariff(0.80, 4.00),
}
_OPENAI = {
    "gpt-5.4": Tariff(2.50, 15.00),
    "gpt-5.1": Tariff(1.25, 10.00),
    "gpt-5": Tariff(1.25, 10.00),
    "gpt-5-mini": Tariff(0.25, 2.00),
    "gpt-5-nano": Tariff(0.05, 0.40),
    "gpt-4.1": Tariff(2.00, 8.00),
    "gpt-4.1-mini": Tariff(0.40, 1.60),
    "gpt-4.1-nano": Tariff(0.10, 0.40),
    "gpt-4o": Tariff(2.50, 10.00),
    "gpt-4o-mini": Tariff(0.15, 0.60),
    "o4-mini": Tariff(1.10, 4.40),
    "o3": Tariff(2.00, 8.00),
}
PRICES: Mapping[str, Mapping[str, Tariff]] = {"anthropic": _ANTHROPIC, "openai": _OPENAI}
# What may follow a model's name and leave its price as it is: a date, or that it is the latest.
_EDITION = re.compile(r"-(?:\d{8}|\d{4}-\d\d-\d\d|latest|0)\Z")


def list_price(provider: str, model: str) -> Tariff | None:
    """None of a model that isn't known here: its nearest relative may cost ten times as much."""
    return PRICES.get(provider, {}).get(_EDITION.sub("", model.strip().casefold()))

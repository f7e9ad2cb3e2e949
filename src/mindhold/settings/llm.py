"""What can be set of language models."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from mindhold.settings.setting import setting

Provider = Literal["none", "anthropic", "openai", "compatible", "claude_cli", "gemini_cli"]
_RUNG = re.compile(r"(?P<provider>[a-z_]+)(?: *: *(?P<model>[^\s@]\S*?))?(?: *@ *(?P<address>https?://\S+))?")


@dataclass(frozen=True, slots=True)
class Choice:
    """Whom to ask, by which model and where; empty parts are as the provider usually has them."""

    provider: Provider
    model: str = ""
    address: str = ""


def origin_of(address: str) -> tuple[str, str, int | None]:
    """Which server an address is of: a key that is meant for one is nobody else's business."""
    try:
        parts = urlsplit(address.strip())
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:  # no address: nobody's
        return address, "", None
    return parts.scheme, parts.hostname or "", port


def fallbacks(value: str) -> tuple[Choice, ...]:
    """`claude_cli, compatible:qwen3@http://localhost:11434/v1`, read. Raises ValueError, saying what is wrong."""
    found = []
    for part in filter(None, (piece.strip() for piece in value.split(","))):
        read = _RUNG.fullmatch(part)
        known = [name for name in get_args(Provider) if name != "none"]
        if read is None or read["provider"] not in known:
            raise ValueError(f"{part!r} is none of {', '.join(known)}, with :MODEL and @ADDRESS where wanted")
        provider = cast("Provider", read["provider"])
        found.append(Choice(provider, read["model"] or "", read["address"] or ""))
    return tuple(found)


def _no_fallback(value: str) -> str:
    try:
        fallbacks(value)
    except ValueError as error:
        return f"no list of whom to ask next: {error}"
    return ""


@dataclass(frozen=True, slots=True)
class LlmSettings:
    provider: Provider = setting(  # noqa: RUF009
        "none",
        "Who judges new memories, answers questions and settles contradictions: anthropic, openai and compatible (any "
        "server that speaks OpenAI's protocol, such as Ollama) are sent remembered text; claude_cli and gemini_cli ask "
        "by those programs; none leaves it to rules, and nothing leaves this machine.",
    )
    fallback: str = setting(
        "",
        "Who is asked next where the provider fails, by commas: a provider, with :MODEL and @ADDRESS where it needs them, such as "
        "claude_cli, compatible:qwen3@http://localhost:11434/v1.",
        doubt=_no_fallback,
    )
    model: str = setting("auto", "Which model; auto takes the provider's usual one.")
    base_url: str = setting("", "Address of the service; empty means the provider's own.")
    anthropic_key: str = setting("", "Key to Anthropic.", aliases=("ANTHROPIC_API_KEY",), secret=True)
    openai_key: str = setting("", "Key to OpenAI.", aliases=("OPENAI_API_KEY",), secret=True)
    compatible_key: str = setting("", "Key to the compatible service, if it wants one.", secret=True)
    gemini_key: str = setting(
        "",
        "Key to Gemini, handed to its program; needless where that is logged in.",
        aliases=("GEMINI_API_KEY",),
        secret=True,
    )
    command: str = setting(
        "", "The program of claude_cli or gemini_cli; empty looks for claude or gemini on the PATH."
    )
    plain_http: bool = setting(
        False, "Whether texts and key may go to a service on another machine by http, readable on the way."
    )
    sampling: bool = setting(
        False, "Whether an MCP client's own model may be asked, where the client offers it."
    )
    wait_seconds: int = setting(30, "How long to wait for a language model.", least=1, most=600)
    most_output: int = setting(2_000, "Most tokens of one answer of the model.", least=100, most=100_000)
    daily_tokens: int = setting(
        200_000, "Most tokens that language models may be asked for in a day (UTC); 0 is none.", least=0
    )
    daily_dollars: float = setting(
        0.0, "Most dollars that language models may cost in a day (UTC); 0 is no limit.", least=0
    )
    price_in: float = setting(
        -1.0,
        "Dollars for a million tokens that the model is sent; -1 takes the list price known here.",
        least=-1,
    )
    price_out: float = setting(
        -1.0, "Dollars for a million tokens that it answers; -1 takes the list price known here.", least=-1
    )

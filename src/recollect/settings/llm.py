"""What can be set of language models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recollect.settings.setting import setting


@dataclass(frozen=True, slots=True)
class LlmSettings:
    provider: Literal["none", "anthropic", "openai", "compatible", "claude_cli", "gemini_cli"] = setting(
        "none",
        "Who judges new memories, answers questions and settles contradictions: anthropic, openai and compatible (any "
        "server that speaks OpenAI's protocol, such as Ollama) are sent remembered text; claude_cli and gemini_cli ask "
        "by those programs; none leaves it to rules, and nothing leaves this machine.",
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

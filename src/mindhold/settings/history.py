"""What can be set of past conversations, and of the recursive language model that may read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mindhold.settings.capture import listed
from mindhold.settings.setting import setting

AGENTS = ("claude", "codex", "gemini", "cursor")


def _no_agents(value: str) -> str:
    unknown = [name for name in listed(value) if name not in AGENTS]
    return f"no list of agents: {unknown[0]!r} is none of {', '.join(AGENTS)}" if unknown else ""


@dataclass(frozen=True, slots=True)
class HistorySettings:
    enabled: bool = setting(True, "Whether past conversations are indexed and searched.")
    claude_dir: str = setting(
        "",
        "Claude Code's folder with its transcripts; empty means ~/.claude.",
        aliases=("CLAUDE_CONFIG_DIR",),
    )
    agents: str = setting(
        "claude,codex,gemini,cursor", "Whose conversations are read, by commas.", doubt=_no_agents
    )
    codex_dir: str = setting("", "Codex CLI's folder; empty means ~/.codex.", aliases=("CODEX_HOME",))
    gemini_dir: str = setting("", "Gemini CLI's folder; empty means ~/.gemini.")
    cursor_dir: str = setting("", "A folder with chats exported from Cursor; empty means none.")
    exclude: str = setting(
        "",
        "Projects and folders whose conversations are never indexed, by commas; * and ? stand for anything in them. "
        "Those of capture.exclude aren't either.",
    )
    subagents: bool = setting(True, "Whether what sub-agents said is indexed too.")
    vectors: bool = setting(True, "Whether conversations are also found by meaning, where there is a model.")
    watch: bool = setting(True, "Whether a running server keeps the index current.")
    archive: bool = setting(
        False, "Whether transcripts are kept, compressed, when the program that made them deletes them."
    )
    archive_hours: int = setting(24, "Hours between two looks at what must be archived.", least=1, most=720)
    archive_max_mb: int = setting(
        2_000, "Megabytes that the archive may have; the oldest conversations make room.", least=1
    )
    read_with: Literal["auto", "index"] = setting(
        "auto",
        "Who reads the best passages before memory_recall answers: `auto` the RLM server, else the language model of "
        "llm.provider, where there is one, which is then sent them without secrets; `index` nobody.",
    )
    most_calls: int = setting(12, "Most calls of the model for one answer.", least=1, most=100)


@dataclass(frozen=True, slots=True)
class RlmSettings:
    server_path: str = setting(
        "", "The folder of an RLM server, which `uv` runs; empty means none.", aliases=("RLM_SERVER_PATH",)
    )
    command: str = setting("", "The command that starts an RLM server, instead of `uv` in rlm.server_path.")
    provider: str = setting("claude-sdk", "Whom the RLM server asks.")
    model: str = setting("claude-haiku-4-5", "By which model.")
    concurrency: int = setting(4, "Calls that it makes at once.", least=1, most=8)
    most_conversations: int = setting(
        10, "Most conversations that it reads for one answer.", least=1, most=100
    )
    most_characters: int = setting(
        400_000,
        "Most characters of conversations that its model reads for one answer; about four are a token.",
        least=1_000,
    )
    relevance: float = setting(
        0.5, "What it, or a language model, finds less relevant than that is left out.", least=0.0, most=1.0
    )
    timeout_seconds: int = setting(60, "Seconds that one call of it may take.", least=1, most=3_600)
    answer_seconds: int = setting(
        90, "Seconds that one answer by it may take; then the index answers.", least=1, most=3_600
    )
    start_seconds: int = setting(30, "Seconds that its start may take.", least=1, most=600)
    tries: int = setting(3, "How often a connection is tried.", least=1, most=10)

"""A language model from the command line: which one, what it cost, and that its key is never shown."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from cli_shell import Shell

from support.paid_services import LanguageServer

KEY = "sk-a-key-that-nobody-must-see"
NAME = "anthropic:claude-haiku-4-5"


def keeps(_system: str, _prompt: str) -> str:
    return json.dumps([{"fragment": 1, "score": 0.75, "verdict": "keep"}])


@pytest.fixture
def server() -> Iterator[LanguageServer]:
    with LanguageServer(keeps, key=KEY) as server:
        yield server


@pytest.fixture
def chosen(shell: Shell, server: LanguageServer) -> Shell:
    """A shell whose settings name a model."""
    for name, value in {"PROVIDER": "anthropic", "ANTHROPIC_KEY": KEY, "BASE_URL": server.url}.items():
        shell.patch.setenv(f"MINDHOLD_LLM_{name}", value)
    return shell


def test_what_is_remembered_is_judged_by_the_next_run_of_jobs(chosen: Shell, server: LanguageServer) -> None:
    chosen.fine("remember", "The quay crane lifts 40 tonnes.")
    assert server.asked == [], "remembering waits for no model"
    chosen.fine("jobs", "run")
    [memory] = chosen.fine("list", "--json").json["memories"]
    assert memory["verified"]
    [asked] = server.asked
    assert "40 tonnes" in asked.prompt


def test_status_tells_which_and_what_it_cost(chosen: Shell, server: LanguageServer) -> None:
    assert f"language   {NAME}; 0 calls today, 0 of 200,000 tokens" in chosen.fine("status").out
    chosen.fine("remember", "The quay crane lifts 40 tonnes.")
    chosen.fine("jobs", "run")
    assert f"{NAME}; 1 call today, " in chosen.fine("status").out


def test_doctor_asks_it(chosen: Shell, server: LanguageServer) -> None:
    assert f"language model: {NAME} answers" in chosen("doctor").out
    server.stop()
    sick = chosen("doctor")
    assert sick.status == 1
    assert "can't be reached" in sick.out


def test_the_key_is_never_shown(chosen: Shell, server: LanguageServer) -> None:
    chosen.patch.setenv("MINDHOLD_LLM_ANTHROPIC_KEY", "sk-wrong-but-still-secret")
    chosen.fine("remember", "The quay crane lifts 40 tonnes.")
    for words in (("jobs", "run", "--verbose"), ("doctor", "--verbose"), ("config", "show"), ("status",)):
        told = chosen(*words)
        assert "sk-wrong" not in told.out + told.err


def test_nobody_is_asked_unless_chosen(shell: Shell, server: LanguageServer) -> None:
    shell.patch.setenv("ANTHROPIC_API_KEY", KEY)
    shell.patch.setenv("MINDHOLD_LLM_BASE_URL", server.url)
    shell.fine("remember", "The quay crane lifts 40 tonnes.")
    shell.fine("jobs", "run")
    assert "language" not in shell.fine("status").out
    assert server.asked == []


def test_spend_tells_what_it_cost_and_for_what(chosen: Shell, server: LanguageServer) -> None:
    nothing = chosen.fine("spend").out
    assert "No model was asked." in nothing
    assert "left today 200,000 of 200,000 tokens" in nothing
    for name, value in {"PRICE_IN": "1", "PRICE_OUT": "5", "DAILY_DOLLARS": "1.5"}.items():
        chosen.patch.setenv(f"MINDHOLD_LLM_{name}", value)
    known = chosen.remember("The quay crane lifts 40 tonnes.")
    chosen.fine("jobs", "run")
    told = chosen.fine("spend", "--days", "3").out
    for words in ("purpose", "judge", NAME, "memories", "of 200,000 tokens, $1.50 of $1.50"):
        assert words in told
    assert known not in told
    document = chosen.fine("spend", "--json").json
    assert [one["name"] for one in document["purposes"]] == ["judge"]
    assert document["total"]["memories"] == [known]
    assert document["total"]["dollars"] > 0
    assert document["today"]["dollars_left"] < 1.5
    assert "less than a cent of $1.50" in chosen.fine("status").out


def test_spend_says_where_a_price_is_unknown(shell: Shell) -> None:
    for name, value in {
        "PROVIDER": "compatible",
        "MODEL": "x",
        "BASE_URL": "https://models.invalid/v1",
    }.items():
        shell.patch.setenv(f"MINDHOLD_LLM_{name}", value)
    shell.fine("remember", "The quay crane lifts 40 tonnes.")
    shell.fine("jobs", "run")
    told = shell.fine("spend")
    assert "unknown" in told.out
    assert "3 calls of unknown price" in told.err, "each attempt is one"


@pytest.mark.parametrize("days", ["0", "91", "many"])
def test_spend_of_no_days(shell: Shell, days: str) -> None:
    assert shell("spend", "--days", days).status == 2


def test_the_ladder_is_told(chosen: Shell, server: LanguageServer) -> None:
    with LanguageServer(keeps) as other:
        chosen.patch.setenv("MINDHOLD_LLM_FALLBACK", f"openai, compatible:qwen3@{other.url}/v1")
        told = chosen.fine("status")
        assert f"{NAME}, then openai, then compatible:qwen3; 0 calls" in told.out
        assert "llm.fallback, openai: llm.openai_key is empty" in told.err
        sick = chosen("doctor")
        assert "fallback model: compatible:qwen3 answers" in sick.out
        assert "fallback model: openai: llm.fallback, openai" in sick.out
        assert sick.status == 1


def test_a_key_file_is_named_and_its_key_hidden(shell: Shell, server: LanguageServer) -> None:
    kept = shell.home.parent / ".anthropic" / "api_key"
    kept.parent.mkdir()
    kept.write_text(f"{KEY}\n")
    for name in ("ANTHROPIC_API_KEY", "USERPROFILE"):
        shell.patch.delenv(name, raising=False)
    shell.patch.setenv("HOME", str(kept.parents[1]))
    assert "api_key" not in shell.fine("config", "show", "llm.anthropic_key").out, "nobody is to be asked"
    shell.patch.setenv("MINDHOLD_LLM_PROVIDER", "anthropic")
    shell.patch.setenv("MINDHOLD_LLM_BASE_URL", server.url)
    told = shell.fine("config", "show", "llm.anthropic_key").out
    assert f"(hidden)  ({kept})" in told
    assert KEY not in told
    assert f"language model: {NAME} answers" in shell("doctor").out

"""A language model from the command line: which one, what it cost, and that its key is never shown."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from cli_shell import Shell

from recollect.testing.servers.languages import LanguageServer

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
        shell.patch.setenv(f"RECOLLECT_LLM_{name}", value)
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
    chosen.patch.setenv("RECOLLECT_LLM_ANTHROPIC_KEY", "sk-wrong-but-still-secret")
    chosen.fine("remember", "The quay crane lifts 40 tonnes.")
    for words in (("jobs", "run", "--verbose"), ("doctor", "--verbose"), ("config", "show"), ("status",)):
        told = chosen(*words)
        assert "sk-wrong" not in told.out + told.err


def test_nobody_is_asked_unless_chosen(shell: Shell, server: LanguageServer) -> None:
    shell.patch.setenv("ANTHROPIC_API_KEY", KEY)
    shell.patch.setenv("RECOLLECT_LLM_BASE_URL", server.url)
    shell.fine("remember", "The quay crane lifts 40 tonnes.")
    shell.fine("jobs", "run")
    assert "language" not in shell.fine("status").out
    assert server.asked == []

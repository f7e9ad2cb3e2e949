"""What the benchmark says that a model keeps of conversations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.extraction_model import kept_by_model, model_settings
from talks import claude, user, write

from support.paid_services import LanguageServer


def test_each_conversation_is_captured_by_itself(tmp_path: Path) -> None:
    found = {"type": "decision", "content": "Orders are kept in PostgreSQL.", "line": 1}
    files = [
        write(tmp_path / f"{name}.jsonl", user(f"{name}: orders go to PostgreSQL"), claude("Fine."))
        for name in ("a", "b")
    ]
    with LanguageServer(lambda _system, _prompt: json.dumps([found])) as server:
        run = kept_by_model(files, f"compatible:small@{server.url}/v1", environment={})
    assert [(each.file, each.line, each.kind, each.content) for each in run.picked] == [
        (file.name, 1, "decision", found["content"]) for file in files
    ]
    assert run.rungs == ("compatible:small", "compatible:small")
    assert run.notices == ()
    assert len(server.asked) == 2
    assert "Existing memories:\nnone" in server.asked[1].prompt


def test_a_choice_names_one_model() -> None:
    assert model_settings("claude_cli:haiku")["llm.provider"] == "claude_cli"
    for wrong in ("", "gpt", "anthropic, openai"):
        with pytest.raises(ValueError, match=r"none of|one model"):
            model_settings(wrong)

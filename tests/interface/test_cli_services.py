"""An embedding service from the command line: what it costs, adopting it, and that its key is never shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from cli_shell import Shell

from mindhold.ports.embedder import Matrix
from mindhold.providers.embedding.base import HashingEmbedder
from support.paid_services import EmbeddingServer

KEY = "sk-a-key-that-nobody-must-see"


def hashed(texts: Sequence[str], length: int) -> Matrix:
    return HashingEmbedder(length).embed_now(texts)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(hashed, key=KEY) as server:
        yield server


@pytest.fixture
def known(shell: Shell, server: EmbeddingServer) -> Shell:
    """A shell whose memories were embedded locally, and whose settings name a service now."""
    shell.fine("remember", "The ferry to Oslo leaves at nine.")
    shell.fine("remember", "Bread needs an hour in the oven.")
    for name, value in {"PROVIDER": "openai", "OPENAI_KEY": KEY, "BASE_URL": server.url}.items():
        shell.patch.setenv(f"MINDHOLD_EMBEDDING_{name}", value)
    return shell


def test_nothing_is_sent_until_somebody_agrees(known: Shell, server: EmbeddingServer) -> None:
    answer = known.fine("recall", "ferry to Oslo")
    assert "ferry" in answer.out
    assert "mindhold models adopt" in answer.err
    refused = known("models", "adopt")
    assert refused.status == 5
    assert "--yes" in refused.err
    declined = known("models", "adopt", stdin="n\n", terminal=True)
    assert "2 memories" in declined.err
    assert "hashing-256" in declined.err
    assert "less than a cent" in declined.err
    assert server.asked == []


def test_adopting_embeds_and_is_paid(known: Shell, server: EmbeddingServer) -> None:
    adopted = known.fine("models", "adopt", "--yes", "--json").json
    assert (adopted["memories"], adopted["embedded"], adopted["queued"]) == (2, 2, True)
    assert adopted["model"] == "openai:text-embedding-3-small/1536"
    assert "openai:text-embedding-3-small/1536" in known.fine("models", "list").err
    status = known.fine("status").out
    assert "3 calls of embedding services" in status  # one of them to see that it works
    assert "recall by  full text + openai:text-embedding-3-small/1536" in status
    assert known.fine("recall", "ferry to Oslo").err == ""


def test_a_service_that_fails_is_not_adopted(known: Shell, server: EmbeddingServer) -> None:
    known.patch.setenv("MINDHOLD_EMBEDDING_OPENAI_KEY", "sk-wrong")
    refused = known("models", "adopt", "--yes")
    assert refused.status == 8
    assert "from now on" not in refused.out
    assert "The stored vectors are of hashing-256" in known.fine("recall", "ferry to Oslo").err


def test_an_unknown_price_is_told_as_unknown(known: Shell, server: EmbeddingServer) -> None:
    for name, value in {"PROVIDER": "compatible", "MODEL": "small", "COMPATIBLE_KEY": KEY}.items():
        known.patch.setenv(f"MINDHOLD_EMBEDDING_{name}", value)
    declined = known("models", "adopt", stdin="n\n", terminal=True)
    assert "price unknown" in declined.err
    assert "free" not in declined.err


def test_the_key_is_never_shown(known: Shell, server: EmbeddingServer) -> None:
    known.patch.setenv("MINDHOLD_EMBEDDING_OPENAI_KEY", "sk-wrong-but-still-secret")
    refused = known("models", "adopt", "--yes", "--no-jobs", "--verbose")
    assert "refuses the key" in refused.err
    assert "sk-wrong" not in refused.out + refused.err
    for words in (
        ("recall", "ferry to Oslo", "--verbose"),
        ("jobs", "run"),
        ("status",),
        ("doctor",),
        ("config", "show"),
        ("models", "list"),
    ):
        answer = known(*words)
        assert "sk-wrong" not in answer.out + answer.err
    logs = known.home / "logs"
    assert not any(b"sk-wrong" in path.read_bytes() for path in logs.rglob("*") if path.is_file())

"""The command line against a server: it prints what it prints on the server's own machine."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from cli_shell import Answer, Shell
from mcp_clients import HttpServer
from scripted_server import ScriptedServer, Told

from everywhere import as_environment
from mindhold.interfaces.cli.command import Command, Group
from mindhold.interfaces.cli.main import COMMANDS, cli

if TYPE_CHECKING:
    from everywhere import House

KEY = "the-owners-key-of-this-test"
SCORE = re.compile(r"\b[01]\.\d+\b")  # of what is recalled: recency counts by the second


@dataclass(frozen=True, slots=True)
class Both:
    """One shell on the server's machine, one elsewhere."""

    home: Path
    away: Path
    url: str
    patch: pytest.MonkeyPatch

    def here(self, *argv: str, stdin: str = "") -> Answer:
        self.patch.setenv("MINDHOLD_HOME", str(self.home))
        return Shell(self.home, self.patch)(*argv, stdin=stdin)

    def there(self, *argv: str, stdin: str = "") -> Answer:
        self.patch.setenv("MINDHOLD_HOME", str(self.away))
        return Shell(self.away, self.patch)("--server", self.url, *argv, stdin=stdin)

    def fine(self, *argv: str, stdin: str = "") -> Answer:
        """Asked of the server; must end well."""
        answer = self.there(*argv, stdin=stdin)
        assert answer.status == 0, f"{argv}: {answer.out}{answer.err}"
        return answer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's home."""
    return tmp_path_factory.mktemp("served") / "home"


@pytest.fixture(scope="module")
def server(served: Path) -> Iterator[HttpServer]:
    with HttpServer(served) as running:
        yield running


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One that wants a key."""
    home = tmp_path_factory.mktemp("locked") / "home"
    with HttpServer(home, MINDHOLD_ACCESS_KEY=KEY) as running:
        yield running


@pytest.fixture
def both(server: HttpServer, served: Path, shell: Shell, house: House, tmp_path: Path) -> Both:
    shell.patch.setenv("MINDHOLD_TIME_ZONE", "UTC")
    for name, value in as_environment(house.settings_of(served)).items():
        shell.patch.setenv(name, value)
    return Both(served, tmp_path / "away", server.url, shell.patch)


@pytest.fixture(scope="module")
def filled(server: HttpServer) -> str:
    """Something of everything; the id of one memory."""
    from mindhold.client.api import Mindhold

    with Mindhold(server.url) as client:
        client.create_scope("work", description="The day job")
        client.create_project("shop", description="Lamps")
        made = client.remember("The harbour closes at nine", kind="fact", tags=["harbour", "hours"])
        other = client.remember("The harbour master has the keys", tags=["harbour"], importance=0.9)
        client.remember("Ferries stop when the harbour closes", scope="work")
        assert made.id is not None
        assert other.id is not None
        client.link(made.id, other.id, relation="caused_by")
        client.amend(made.id, topic="opening hours")
        return made.id


READS = [
    ["recall", "harbour", "--no-count"],
    ["recall", "harbour keys", "--no-count", "--links", "-C", "1", "--when", "today"],
    ["recall", "ferries", "--no-count", "--everywhere", "--since", "yesterday"],
    ["search", "harbour", "--no-count", "--scope", "work"],
    ["list"],
    ["list", "--tag", "harbour", "--order", "oldest", "-n", "1"],
    ["show", "{id}"],
    ["versions", "{id}"],
    ["explore", "{id}"],
    ["reconstruct", "harbour"],
    ["tags"],
    ["tags", "--scope", "work"],
    ["timeline"],
    ["timeline", "today", "--kind", "fact"],
    ["scopes", "list"],
    ["scopes", "show", "work"],
    ["projects", "list"],
    ["projects", "show", "shop"],
    ["context"],
    ["ask", "when does the harbour close?"],
    ["feedback"],
    ["spend"],
    ["contradictions", "list"],
    ["show", "zzzz"],
    ["recall", "x", "--scope", "nowhere"],
    ["projects", "show", "nosuch"],
    ["recall", "x", "--limit", "0"],
    ["recall", "x", "--when", "flurbsday"],
    ["scopes", "create", "Global"],
]


@pytest.mark.parametrize("argv", READS, ids=" ".join)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_the_same_is_printed_as_on_the_server_itself(
    both: Both, filled: str, argv: list[str], form: list[str]
) -> None:
    words = [word.format(id=filled[:14]) for word in argv] + form
    here, there = both.here(*words), both.there(*words)
    assert there.status == here.status
    assert SCORE.sub("#", there.out) == SCORE.sub("#", here.out)
    assert there.err == here.err
    assert not both.away.exists()


def test_how_the_server_is(both: Both, filled: str) -> None:
    told = both.fine("status").out
    assert f"server     {both.url}" in told
    assert "memories" in told
    document = both.fine("status", "--json").json
    assert document["memories"] == both.here("status", "--json").json["memories"]
    assert "capture" not in document
    stats = both.fine("stats", "--json").json
    assert stats["by_scope"] == both.here("stats", "--json").json["by_scope"]
    assert both.fine("jobs", "list", "--json").json["jobs"] is not None


def test_writing(both: Both, filled: str) -> None:
    made = both.fine("remember", "The pier was painted on {}", "--kind", "fact", "--when", "last Monday")
    found = re.search(r"Remembered (\w+) \(fact, scope Global\)", made.out)
    assert found is not None
    known = found[1]
    assert both.here("show", known).status == 0
    assert both.fine("amend", known, "--content", "The pier was painted green").out.startswith("Amended")
    assert both.fine("link", known, filled).out.startswith("Linked")
    assert both.fine("link", known, filled, "--remove").out == "Removed 1 link.\n"
    assert both.fine("forget", known[:20]).out.startswith("Forgot 1 memory.")
    assert both.here("list", "--status", "forgotten", "--json").json["memories"][0]["id"] == known
    assert both.fine("forget", known, "--undo").out.startswith("Brought back 1 memory.")
    assert "Nothing is left." in both.fine("forget", known, "--hard", "--yes").out
    lines = "\n".join(
        json.dumps({"content": f"Berth {number} is {number} fathoms deep"}) for number in range(3)
    )
    assert both.fine("remember", "--batch", stdin=lines).out == "Remembered 3 memories.\n"
    assert "Kept 2 memories" in both.fine("reflect", "Painted the pier", "--decision", "Green it is").out
    assert both.fine("feedback", "recall", "--relevant").out == "Noted.\n"
    assert both.fine("scopes", "create", "pier").out == "Created pier.\n"
    assert both.fine("scopes", "delete", "pier", "--yes").out.startswith("Deleted pier")
    assert both.fine("projects", "create", "pier-works").out.startswith("Created pier-works")
    assert "whole path" in both.there("projects", "create", "pier-yard", "--path", ".").err


def test_the_scope_and_the_agent_of_a_call_hold_there_too(both: Both, filled: str) -> None:
    made = both.fine("--scope", "work", "remember", "The office lift is broken", "--json").json
    assert made["memory"]["scope"] == "work"
    found = both.fine("--scope", "work", "recall", "office lift", "--json").json
    assert made["id"] in [hit["id"] for hit in found["hits"]]
    assert found["scopes"] == both.here("--scope", "work", "recall", "office lift", "--json").json["scopes"]
    everywhere = both.fine("--scope", "shop", "recall", "office lift", "-e", "--json").json
    assert made["id"] in [hit["id"] for hit in everywhere["hits"]]
    secret = both.fine("--agent", "alice", "remember", "Alice likes the window seat", "--json").json
    assert secret["memory"]["agent"] == "alice"
    assert both.there("--agent", "bob", "show", secret["id"]).status == 3


def test_an_export_is_brought_here(both: Both, filled: str, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    told = both.fine("export", str(path))
    assert f"in {path}" in told.out
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0])["mindhold"] == "export"
    own = both.here("export", str(tmp_path / "own.jsonl"), "--json").json
    assert both.fine("export", str(path), "--json").json == own | {"path": str(path)}
    assert both.fine("export", "-", "--scope", "work").out.count('"type":"memory"') >= 1
    refused = both.there("export", "--memory-mcp")
    assert (refused.status, "JSON lines" in refused.err) == (2, True)


def _declared(name: str) -> Command | Group:
    found = cli.get_command(click.Context(cli), name)
    assert isinstance(found, Command | Group)
    return found


@pytest.mark.parametrize("name", sorted(name for name in COMMANDS if not _declared(name).remote))
def test_what_needs_this_machine_says_so(both: Both, name: str) -> None:
    words = {
        "import": ["x.jsonl"],
        "migrate": ["shop", "--to", "local"],
        "completion": ["bash"],
        "config": ["show"],
        "history": ["status"],
        "models": ["list"],
        "keys": ["list"],
        "why": ["x"],
        "sync": [],
        "capture": ["status"],
        "connect": ["claude"],
    }.get(name, [])
    told = both.there(name, *words)
    assert (told.status, told.out) == (2, "")
    assert f"`mindhold {name}" in told.err
    assert both.url in told.err
    assert not both.away.exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_is_remote_and_local(name: str) -> None:
    declared = _declared(name)
    assert not (declared.remote and declared.local)
    if isinstance(declared, Group):
        parts = [declared.get_command(click.Context(declared), part) for part in declared.where]
        assert not declared.remote or not any(part.remote for part in parts if isinstance(part, Command))


def test_past_conversations_are_asked_of_the_server(both: Both, filled: str) -> None:
    for words in (["search", "harbour"], ["timeline"], ["projects"]):
        here, there = (asked("history", *words, "--json") for asked in (both.here, both.fine))
        assert there.json == here.json
    assert "harbour" in both.fine("history", "search", "harbour").out
    refused = both.there("history", "search", "harbour", "--project", ".")
    assert (refused.status, "of this machine" in refused.err) == (2, True)
    assert not both.away.exists()


def test_the_server_may_be_set(both: Both, filled: str) -> None:
    both.patch.setenv("MINDHOLD_REMOTE_URL", both.url)
    both.patch.setenv("MINDHOLD_HOME", str(both.away))
    shell = Shell(both.away, both.patch)
    assert shell.fine("show", filled).out == both.here("-o", "remote.url=", "show", filled).out
    both.patch.setenv("MINDHOLD_HOME", str(both.away))
    assert shell.fine("config", "get", "remote.url").out == f"{both.url}\n"  # of this machine by its nature
    refused = shell("doctor")
    assert (refused.status, both.url in refused.err) == (2, True)
    assert shell("doctor", "-o", "remote.url=").status in (0, 1)
    assert shell("show", filled, "-o", "remote.url=").status == 3


def test_a_server_that_is_away(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    told = shell("recall", "x", "--server", url, "--json")
    assert told.status == 9
    assert told.json["error"]["code"] == "SERVER_AWAY"
    assert "mindhold serve" in told.json["error"]["advice"]
    assert shell("--server", "nonsense", "list").status == 6


def test_a_key_is_needed_kept_secret_and_not_shown_around(shell: Shell, locked: HttpServer) -> None:
    told = shell("--server", locked.url, "list")
    assert (told.status, "MINDHOLD_REMOTE_KEY" in told.err) == (5, True)
    shell.patch.setenv("MINDHOLD_REMOTE_KEY", KEY)
    assert shell.fine("--server", locked.url, "list").out == "No memory matches.\n"
    assert KEY not in shell.fine("config", "show", "--json").out
    shell.patch.setenv("MINDHOLD_REMOTE_KEY", "wrong-and-secret")
    refused = shell("--server", locked.url, "list", "--json", "-v")
    assert refused.status == 5
    assert "wrong-and-secret" not in refused.out + refused.err
    plain = shell("--server", "http://memory.example.org", "list")
    assert (plain.status, "plain http" in plain.err) == (6, True)
    assert "wrong-and-secret" not in plain.err


def test_a_key_of_the_settings_goes_to_their_server_alone(shell: Shell, locked: HttpServer) -> None:
    shell.fine("config", "set", "remote.key", KEY)
    told = shell("--server", locked.url, "list")  # beside no address it is for none
    assert (told.status, "wasn't sent" in told.err) == (5, True)
    shell.fine("config", "set", "remote.url", locked.url)
    assert shell.fine("list").out == "No memory matches.\n"
    assert shell.fine("--server", f"{locked.url}/", "list").out == "No memory matches.\n"
    refusal = Told(401, {"error": "Who?", "code": "UNAUTHORIZED"})
    with ScriptedServer(refusal) as other:
        for argv in (["--server", other.url, "list"], ["list", "-o", f"remote.url={other.url}"]):
            told = shell(*argv)
            assert (told.status, "MINDHOLD_REMOTE_KEY" in told.err) == (5, True)
        shell.patch.setenv("MINDHOLD_REMOTE_URL", other.url)
        assert "wasn't sent" in shell("list").err
        assert [one.headers.get("authorization") for one in other.heard] == [None] * 3
        shell.patch.setenv("MINDHOLD_REMOTE_KEY", "the-key-of-the-other")
        assert "wasn't sent" not in shell("list").err
        assert other.heard[-1].headers["authorization"] == "Bearer the-key-of-the-other"


def test_an_agent_may_have_any_name_that_a_line_can_hold(both: Both, filled: str) -> None:
    made = both.fine("--agent", "zoë", "remember", "Zoë likes the aisle seat", "--json").json
    assert made["memory"]["agent"] == "zoë"
    told = both.there("--agent", "a\nb", "list")
    assert (told.status, "agent" in told.err) == (2, True)


def test_options_stand_anywhere(both: Both, filled: str) -> None:
    shell = Shell(both.away, both.patch)
    both.patch.setenv("MINDHOLD_HOME", str(both.away))
    given: list[Any] = [
        ["--server", both.url, "show", filled],
        ["show", filled, "--server", both.url],
        ["show", filled, "-o", f"remote.url={both.url}"],
    ]
    assert len({shell.fine(*argv).out for argv in given}) == 1


def test_an_address_with_more_behind_it_is_told(both: Both) -> None:
    shell = Shell(both.away, both.patch)
    told = shell("--server", f"{both.url}/mcp", "list", "--json")
    assert (told.status, told.json["error"]["code"]) == (9, "SERVER_ERROR")
    assert f"{both.url}/mcp" in told.json["error"]["message"]
    assert "http://localhost:3333" in told.json["error"]["advice"]


def test_what_to_do_about_a_project_a_key_and_a_server(both: Both) -> None:
    missing = both.there("projects", "summary", "nope")
    assert (missing.status, "'nope'" in missing.err, "create 'nope'" in missing.err) == (3, True, True)
    both.patch.setenv("MINDHOLD_REMOTE_KEY", "wrong-and-secret")
    wrong = both.there("list")
    assert wrong.status == 5
    for words in ("This key does not hold.", "MINDHOLD_REMOTE_KEY", "Leave it out"):
        assert words in wrong.err
    assert "wrong-and-secret" not in wrong.err
    assert "leave --server out" in both.there("doctor").err

"""What holds for every command: help, examples, documents, JSON, exit status, plain output."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from cli_shell import Shell

from mindhold.__main__ import AppLauncher
from mindhold.interfaces.cli.main import cli
from mindhold.interfaces.cli.memories import ORDERS
from mindhold.interfaces.cli.output import Console, display_width, neutral
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.memories.filters import TimeframeView
from mindhold.memories.timeline import INTERPRET_TIME
from mindhold.model.query import Order
from mindhold.operation_index import names, operation
from mindhold.settings.loader import load_settings

GUIDE = Path(__file__).parents[2] / "docs" / "CLI.md"


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command by the words it is called with, groups included."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield (*path, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_command_has_help_examples_and_a_place_in_the_guide(
    shell: Shell, words: tuple[str, ...]
) -> None:
    for option in ("--help", "-h"):
        told = shell.fine(*words, option).out
        assert "Examples:" in told
        assert f"mindhold {' '.join(words)}" in told.split("Examples:")[1] or len(words) == 1
    assert f"mindhold {' '.join(words)}" in GUIDE.read_text(encoding="utf-8")


def test_help_alone_and_the_exit_table(shell: Shell) -> None:
    assert shell.fine().out == shell.fine("--help").out
    guide = GUIDE.read_text(encoding="utf-8")
    for status in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 70, 130):
        assert f"\n    {status} " in shell.fine("--help").out
        assert f"| {status} |" in guide


def test_version_and_orders(shell: Shell) -> None:
    assert shell.fine("--version").out.startswith("mindhold ")
    assert [order.value for order in Order if order is not Order.DUE] == ORDERS  # that one is upkeep's


def test_every_operation_is_found_by_its_name() -> None:
    assert [operation(name).name for name in names()] == names()


def test_a_phrase_of_time_is_an_operation_of_its_own(shell: Shell) -> None:
    async def asked(phrase: str) -> TimeframeView:
        loaded = load_settings({"home": shell.home, "time_zone": "Asia/Seoul"})
        async with AppLauncher().open(loaded) as running:
            view: TimeframeView = await OpenSession(running, CliSession(AppLauncher(), Console())).run(
                INTERPRET_TIME, phrase=phrase
            )
            return view

    view = asyncio.run(asked("March 2023"))
    assert view.start == datetime(2023, 2, 28, 15, tzinfo=UTC)
    assert view.end == datetime(2023, 3, 31, 15, tzinfo=UTC)
    assert view.words == "Wed 2023-03-01 to Fri 2023-03-31"
    answer = shell("remember", "It rained", "--when", "any time")
    assert (answer.status, "no beginning" in answer.err) == (2, True)


@pytest.mark.parametrize(
    "argv",
    [
        ["recall", "harbour"],
        ["recall", "harbour", "--when", "today", "--links", "-C", "1"],
        ["list"],
        ["tags"],
        ["timeline"],
        ["status"],
        ["spend"],
        ["scopes", "list"],
        ["scopes", "show", "Global"],
        ["scopes", "create", "quay"],
        ["config", "show"],
        ["config", "get", "agent"],
        ["config", "set", "agent", "default"],
        ["config", "unset", "agent"],
        ["config", "path"],
        ["models", "list"],
        ["jobs", "list"],
        ["jobs", "run"],
        ["export"],
        ["completion", "bash"],
        ["remember", "The quay is closed on Sundays"],
        ["forget", "--tag", "none", "--yes"],
    ],
    ids=" ".join,
)
def test_json_is_one_document_wherever_the_option_stands(shell: Shell, argv: list[str]) -> None:
    shell.remember("The harbour closes at nine", "--tag", "harbour")
    assert isinstance(shell.fine(*argv, "--json").json, dict)


@pytest.mark.parametrize(
    ("argv", "status", "code"),
    [
        (["recall", "--no-such"], 2, "USAGE"),
        (["nonsense"], 2, "USAGE"),
        (["recall", "x", "--limit", "many"], 2, "USAGE"),
        (["recall", "x", "--kind", "gossip"], 2, "USAGE"),
        (["recall", "x", "--limit", "0"], 2, "INVALID_INPUT"),
        (["recall", "x", "--when", "flurbsday"], 2, "UNKNOWN_TIME"),
        (["recall", "x", "--scope", "nowhere"], 3, "SCOPE_NOT_FOUND"),
        (["show", "zzzz"], 3, "MEMORY_NOT_FOUND"),
        (["scopes", "create", "Global"], 4, "CONFLICT"),
        (["scopes", "delete", "Global", "--yes"], 5, "REFUSED"),
        (["config", "set", "no.such", "1"], 6, "SETTINGS_ERROR"),
        (["models", "use", "no-such"], 8, "MODEL_MISSING"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_errors_have_a_status_a_message_and_json(
    shell: Shell, argv: list[str], status: int, code: str
) -> None:
    plain = shell(*argv)
    assert plain.status == status
    assert plain.out == ""
    assert plain.err.startswith("error: ")
    asked = shell(*argv, "--json")
    assert asked.status == status
    assert asked.json["error"]["code"] == code
    assert asked.json["error"]["message"]


def test_near_misses_are_suggested(shell: Shell) -> None:
    assert "'recall'" in shell("rcall", "x").err
    assert "--when" in shell("recall", "x", "--whn", "y").err


@pytest.mark.local_file
def test_a_fault_of_ours_is_one_line_unless_verbose(shell: Shell) -> None:
    (shell.home / "data").mkdir(parents=True)
    quiet = shell("status", "-o", "store.path=bad\0path")
    assert quiet.status == 70
    assert quiet.err.startswith("error: ValueError")
    assert "Traceback" not in quiet.err
    assert "Traceback" in shell("status", "-v", "-o", "store.path=bad\0path").err


def test_escapes_in_what_was_remembered_cannot_steer_the_terminal(shell: Shell) -> None:
    assert neutral("a\x1b[31mb\x07\u202ec\td\ne\x9bf\r") == "a\\x1b[31mb\\x07\\u202ec\td\ne\\x9bf\\x0d"
    hostile = "The mast \x1b]0;owned\x07 is \u202etall\u202c and \x9b31mred"
    shell.remember(hostile, "--tag", "ma\x1b[31mst")
    shell.fine("scopes", "create", "quay", "--description", "a\x1b[2Jb")
    for argv in (
        ["recall", "mast"],
        ["list"],
        ["tags"],
        ["timeline"],
        ["scopes", "list"],
        ["list", "--json"],
    ):
        for terminal in (False, True):
            told = shell("--no-color", *argv, terminal=terminal).out
            assert not set("\x1b\x07\x9b\u202e") & set(told), argv


def test_colour_on_terminals_only(shell: Shell) -> None:
    shell.remember("The harbour closes at nine")
    assert "\x1b[" not in shell("recall", "harbour").out
    assert "\x1b[" in shell("recall", "harbour", terminal=True).out
    assert "\x1b[" not in shell("--no-color", "recall", "harbour", terminal=True).out
    assert "\x1b[" not in shell("recall", "harbour", "--no-color", terminal=True).out
    assert "\x1b[" not in shell("recall", "harbour", "--json", terminal=True).out
    shell.patch.setenv("NO_COLOR", "yes please")
    assert "\x1b[" not in shell("recall", "harbour", terminal=True).out
    assert "\x1b[" not in shell("show", "zzz", terminal=True).err


def test_tables_and_long_lines_fit_a_terminal(shell: Shell) -> None:
    shell.patch.setenv("COLUMNS", "60")
    shell.remember(
        "The harbour closes at nine because the ferries stop then and nobody is left at the quay at all"
    )
    for argv in (["recall", "harbour"], ["list"], ["config", "show"], ["show", "0"]):
        told = shell("--no-color", *argv, terminal=True).out
        assert told
        wrapped = [line for line in told.splitlines() if "·" not in line]
        assert max(map(len, wrapped)) <= 60, argv
    shell.remember("Nine ferries wait near the outer quay every single evening")
    known = shell.fine("list", "-n", "1", "--json").json["memories"][0]["id"]
    for columns in range(70, 100):
        shell.patch.setenv("COLUMNS", str(columns))
        told = shell("list", "-n", "1", terminal=True).out
        assert known in told
        assert {"ferries", "near", "outer", "every", "single", "evening"} <= set(told.split())
    assert display_width("a港e\u0301") == 4


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: Shell, name: str) -> None:
    assert "_MINDHOLD_COMPLETE" in shell.fine("completion", name).out


def mindhold(
    environment: dict[str, str], *argv: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "mindhold", *argv],
        input=stdin,
        env=environment,
        capture_output=True,
        check=False,
    )


def test_as_processes(environment: dict[str, str]) -> None:
    stored = mindhold(environment, "remember", "-", stdin="The café opens at eight — 毎日".encode())
    assert stored.returncode == 0, stored.stderr
    found = mindhold(environment, "recall", "café", "--json")
    assert json.loads(found.stdout)["hits"][0]["content"] == "The café opens at eight — 毎日"
    assert b"\x1b[" not in mindhold(environment, "recall", "café").stdout
    assert mindhold(environment, "show", "zzz").returncode == 3


def test_an_interrupt_ends_a_call_that_waits_for_stdin(environment: dict[str, str]) -> None:
    script = (
        "import _thread, sys, threading\n"
        "from mindhold.__main__ import AppLauncher\n"
        "from mindhold.interfaces.cli.main import run\n"
        "class Patient:\n"
        "    def __iter__(self):\n"
        "        _thread.interrupt_main()\n"
        "        while True: threading.Event().wait(0.01)\n"
        "class Input:\n"
        "    buffer = Patient()\n"
        "sys.stdin = Input()\n"
        "sys.exit(run(['remember', '--batch'], AppLauncher()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 130
    assert b"Interrupted" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_reader_that_leaves_early_is_no_failure(environment: dict[str, str]) -> None:
    lines = "\n".join(json.dumps(f"Crate {number} holds item {number * 3}") for number in range(400)).encode()
    assert mindhold(environment, "remember", "--batch", stdin=lines).returncode == 0
    read, write = os.pipe()
    os.close(read)
    for argv in (["list", "-n", "400"], ["config", "show"], ["export", "-"]):
        process = subprocess.run(
            [sys.executable, "-m", "mindhold", "-q", *argv],
            env=environment,
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
        )
        assert process.returncode == 0, argv
        assert process.stderr == b"", argv
    os.close(write)


def test_help_settings_and_completion_load_no_engine(environment: dict[str, str]) -> None:
    heavy = {
        "numpy",
        "pydantic",
        "sqlite3",
        "rich",
        "onnxruntime",
        "dateparser",
        "mindhold.app.application",
        "asyncio",
    }
    for argv in (["--help"], ["--version"], ["recall", "--help"], ["config", "show"], ["completion", "bash"]):
        code = (
            "import sys\n"
            "from mindhold.__main__ import AppLauncher\n"
            "from mindhold.interfaces.cli.main import run\n"
            f"assert run({['-q', *argv]!r}, AppLauncher()) == 0\n"
            f"sys.exit(' '.join({heavy!r} & set(sys.modules)))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
        assert done.stderr.strip() == b"", argv


def test_the_shell_completes_commands_and_options(environment: dict[str, str]) -> None:
    for line, word, expected in (
        ("mindhold rec", "1", b"recall"),
        ("mindhold recall --si", "2", b"--since"),
    ):
        asked = environment | {"_MINDHOLD_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": word}
        assert expected in mindhold(asked).stdout

"""Language models behind a program: how it is called, what it may know, and that it never outlives its time."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from mindhold.app.providers import PROGRAMS_FOLDER, language_model
from mindhold.model.errors import ModelAway, ModelBroken, ModelDenied, ModelError, ModelMissing
from mindhold.ports.llm import OwnModel
from mindhold.settings.loader import child_environment, load_settings

KEY = "a-key-that-nobody-must-see"
FAKE = Path(__file__).with_name("fake_program.py")
CLAUDE, GEMINI = "claude_cli", "gemini_cli"


def result(text: str = "PROMPT", **more: Any) -> str:
    """As `claude -p --output-format json` answers."""
    usual = {"type": "result", "subtype": "success", "is_error": False, "stop_reason": "end_turn"}
    return json.dumps(usual | {"result": text} | more)


GOOD = {CLAUDE: result("You said PROMPT"), GEMINI: json.dumps({"response": "You said PROMPT", "stats": {}})}


@dataclass
class Fake:
    """A program that stands in for one of them."""

    folder: Path
    home: Path
    provider: str

    @property
    def command(self) -> str:
        return str(self.folder / ("fake.cmd" if sys.platform == "win32" else "fake"))

    def does(self, **script: Any) -> None:
        (self.folder / "script.json").write_text(json.dumps(script), encoding="utf-8")

    @property
    def calls(self) -> list[dict[str, Any]]:
        log = self.folder / "calls.jsonl"
        return (
            [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            if log.exists()
            else []
        )

    def model(self, **changes: Any) -> OwnModel:
        given = {"provider": self.provider, "command": self.command, "wait_seconds": 20} | changes
        settings = {f"llm.{name}": value for name, value in given.items()}
        made = language_model(load_settings({"home": self.home} | settings, environ={}).settings)
        assert made is not None
        return made


@pytest.fixture(params=[CLAUDE, GEMINI])
def fake(request: pytest.FixtureRequest, tmp_path: Path) -> Fake:
    return installed(tmp_path, request.param)


def installed(tmp_path: Path, provider: str) -> Fake:
    folder = tmp_path / "a folder & more"
    folder.mkdir()
    shutil.copy(FAKE, folder / "fake.py")
    made = Fake(folder, tmp_path / "home", provider)
    program = Path(made.command)
    if sys.platform == "win32":
        program.write_text(f'@"{sys.executable}" "{folder / "fake.py"}" %*\n', encoding="utf-8")
    else:
        program.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" "{folder / "fake.py"}" "$@"\n', encoding="utf-8"
        )
        program.chmod(0o755)
    made.does(out=GOOD[provider])
    return made


def runs(pid: int) -> bool:
    """Whether it is there after a while that is long enough for one that was ended."""
    try:
        process = psutil.Process(pid)
        psutil.wait_procs([process], timeout=60)
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def asked(model: OwnModel, prompt: str = "hello", system: str = "You repeat.") -> str:
    return await model.complete(prompt, system=system, most_tokens=100)


async def test_it_answers(fake: Fake) -> None:
    prompt = 'How many? "quoted" 한국어; $(rm -rf /) `x` %PATH%\n--help'
    assert await asked(fake.model(), prompt) == f"You said {prompt}"
    [call] = fake.calls
    assert call["prompt"] == prompt
    assert prompt not in call["arguments"], "what is remembered is on no command line"
    assert call["folder"] == str((fake.home / PROGRAMS_FOLDER).resolve())


async def test_what_it_is_told_to_be(fake: Fake) -> None:
    await asked(fake.model(), system='You judge.\nSecond "line".')
    [call] = fake.calls
    if fake.provider == CLAUDE:
        file = call["arguments"][call["arguments"].index("--system-prompt-file") + 1]
    else:
        file = Path(call["environ"]["GEMINI_SYSTEM_MD"]).name
    assert call["files"][file] == 'You judge.\nSecond "line".'


async def test_it_has_no_tools_and_leaves_no_trace(fake: Fake) -> None:
    await asked(fake.model())
    [call] = fake.calls
    told = call["arguments"]
    if fake.provider == CLAUDE:
        assert told[told.index("--tools") + 1] == ""
        assert {"-p", "--strict-mcp-config", "--no-session-persistence"} <= set(told)
        assert json.loads(told[told.index("--settings") + 1]) == {"disableAllHooks": True}
        assert int(call["environ"]["CLAUDE_CODE_MAX_OUTPUT_TOKENS"]) >= 100
    else:
        assert told[told.index("--policy") + 1] == "no-tools.toml"
        assert 'decision = "deny"' in call["files"]["no-tools.toml"]
        assert told[told.index("--extensions") + 1] == "none"
    assert call["environ"]["MINDHOLD_EXTRACTING"] == call["environ"]["MINDHOLD_SKIP"] == "1"


async def test_which_model(fake: Fake) -> None:
    await asked(fake.model(model="another"))
    told = fake.calls[0]["arguments"]
    assert told[told.index("--model") + 1] == "another"
    assert fake.model(model="another").name == f"{fake.provider}:another"


def test_what_a_program_may_know() -> None:
    environ = {
        "PATH": "/bin",
        "MINDHOLD_HOME": "/somewhere",
        "MINDHOLD_EMBEDDING_OPENAI_KEY": "a",
        "OPENAI_API_KEY": "b",
        "POSTGRES_PASSWORD": "c",
        "ANTHROPIC_API_KEY": "d",
    }
    assert child_environment(environ) == {
        "PATH": "/bin",
        "ANTHROPIC_API_KEY": "d",
        "MINDHOLD_EXTRACTING": "1",
        "MINDHOLD_SKIP": "1",
    }


async def test_its_own_key_and_no_other(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "CLAUDECODE"):
        monkeypatch.setenv(name, f"of {name}")
    await asked(fake.model(gemini_key=KEY))
    environ = fake.calls[0]["environ"]
    own = {name for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY") if name in environ}
    assert own == ({"ANTHROPIC_API_KEY"} if fake.provider == CLAUDE else {"GEMINI_API_KEY"})
    assert environ.get("GEMINI_API_KEY", KEY) == KEY
    assert "CLAUDECODE" not in environ


async def test_our_own_call_reads_settings_as_ever(tmp_path: Path) -> None:
    environ = {"MINDHOLD_EXTRACTING": "1", "MINDHOLD_SKIP": "1"}
    assert load_settings({"home": tmp_path}, environ=environ).settings.agent == "default"


class TestFaults:
    async def test_a_program_that_is_not_there(self, fake: Fake) -> None:
        with pytest.raises(ModelMissing, match="no program 'nowhere-at-all'"):
            await asked(fake.model(command="nowhere-at-all"))

    @pytest.mark.parametrize(
        ("out", "err", "status"),
        [
            ("", "", 0),
            ("", "it crashed", 3),
            ("hello", "", 0),
            ("{}", "", 0),
            ("[]", "", 0),
            ("null", "", 0),
            ('{"type": "result"', "", 0),
            ("[" * 100_000, "", 0),
        ],
    )
    async def test_what_is_no_answer(self, fake: Fake, out: str, err: str, status: int) -> None:
        fake.does(out=out, err=err, status=status)
        with pytest.raises(ModelBroken) as failed:
            await asked(fake.model())
        assert err in str(failed.value)

    async def test_an_empty_answer(self, fake: Fake) -> None:
        fake.does(out=result(" ") if fake.provider == CLAUDE else '{"response": ""}')
        with pytest.raises(ModelError, match="empty answer"):
            await asked(fake.model())

    async def test_a_failed_one_is_left_alone(self, fake: Fake) -> None:
        fake.does(err="it crashed", status=3)
        model = fake.model()
        for _ in range(5):
            with pytest.raises(ModelBroken):
                await asked(model)
        assert len(fake.calls) == 1

    async def test_it_never_outlives_its_time_nor_do_its_children(self, fake: Fake) -> None:
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            told.set_result(int(await reader.read()))
            writer.close()

        async with await asyncio.start_server(hear, "127.0.0.1", 0) as listening:
            fake.does(hang=True, tell=listening.sockets[0].getsockname()[1])
            asking = asyncio.create_task(asked(fake.model(wait_seconds=600)))
            async with asyncio.timeout(60):
                child = psutil.Process(await told)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert not runs(child.pid)

    async def test_what_it_leaves_running_ends_and_keeps_nobody_waiting(self, fake: Fake) -> None:
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            told.set_result(int(await reader.read()))
            writer.close()

        async with await asyncio.start_server(hear, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            fake.does(leaves=True, tell=port, out=GOOD[fake.provider])
            async with asyncio.timeout(60):
                assert await asked(fake.model(wait_seconds=600)) == "You said hello"
        if sys.platform == "win32":  # where it can't be found any more
            psutil.Process(await told).kill()
        assert not runs(await told)

    async def test_a_folder_that_can_not_be_written_is_not_the_programs_fault(self, fake: Fake) -> None:
        fake.home.mkdir()
        (fake.home / PROGRAMS_FOLDER).write_text("in the way", encoding="utf-8")
        with pytest.raises(ModelBroken, match="can't be written") as failed:
            await asked(fake.model())
        assert "by hand" not in str(failed.value)
        assert failed.value.unasked

    async def test_silence(self, fake: Fake) -> None:
        fake.does(hang=True)
        with pytest.raises(ModelAway, match="didn't answer within 1 seconds"):
            await asked(fake.model(wait_seconds=1))

    async def test_what_says_too_much(self, fake: Fake) -> None:
        fake.does(endless=True)
        with pytest.raises(ModelBroken, match="without end"):
            await asked(fake.model())

    async def test_what_does_not_listen(self, fake: Fake) -> None:
        fake.does(deaf=True, out=GOOD[fake.provider])
        assert await asked(fake.model(), "x" * 1_000_000) == "You said "


class TestClaude:
    @pytest.fixture
    def fake(self, tmp_path: Path) -> Fake:
        return installed(tmp_path, CLAUDE)

    async def test_an_older_version(self, fake: Fake) -> None:
        fake.does(unknown=["--no-session-persistence", "--effort"], out=GOOD[CLAUDE])
        model = fake.model()
        assert await asked(model) == "You said hello"
        told = fake.calls[-1]["arguments"]
        assert "--no-session-persistence" not in told
        assert "low" not in told
        await asked(model)
        assert len(fake.calls) == 4, "it is not asked again for what it doesn't know"

    async def test_one_that_has_no_way_without_tools_is_not_used(self, fake: Fake) -> None:
        fake.does(unknown=["--tools"], out=GOOD[CLAUDE])
        with pytest.raises(ModelBroken, match="--tools"):
            await asked(fake.model())
        assert len(fake.calls) == 1

    @pytest.mark.parametrize(
        ("status", "kind"), [(401, ModelDenied), (429, ModelAway), (529, ModelAway), (None, ModelError)]
    )
    async def test_errors_of_the_service(
        self, fake: Fake, status: int | None, kind: type[ModelError]
    ) -> None:
        fake.does(out=result("Not logged in", is_error=True, api_error_status=status), status=1)
        with pytest.raises(kind, match="by hand"):
            await asked(fake.model())

    async def test_a_cut_answer(self, fake: Fake) -> None:
        fake.does(out=result("The answer beg", stop_reason="max_tokens"))
        with pytest.raises(ModelError, match="cut off"):
            await asked(fake.model())

    async def test_every_message_in_a_list(self, fake: Fake) -> None:
        fake.does(out=f'[{{"type": "system"}}, {result("Well")}]')
        assert await asked(fake.model()) == "Well"


class TestGemini:
    @pytest.fixture
    def fake(self, tmp_path: Path) -> Fake:
        return installed(tmp_path, GEMINI)

    async def test_nobody_is_logged_in(self, fake: Fake) -> None:
        error = json.dumps({"session_id": "1", "error": {"message": f"bad key {KEY}", "code": 41}})
        fake.does(err=f"Warning: no colours\n{error}", status=41)
        with pytest.raises(ModelDenied) as failed:
            await asked(fake.model(gemini_key=KEY))
        assert KEY not in str(failed.value)

    async def test_its_words_without_the_key(self, fake: Fake) -> None:
        fake.does(out=json.dumps({"error": {"message": f"no use of {KEY}"}}), status=1)
        with pytest.raises(ModelError, match=r"no use of \(hidden\)"):
            await asked(fake.model(gemini_key=KEY))

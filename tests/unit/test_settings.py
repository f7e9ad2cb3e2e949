"""Settings: who wins, where each value came from, and what is said of a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindhold.model.errors import SettingsError
from mindhold.settings.loader import LoadedSettings, load_settings, parsed_value, variable_of
from mindhold.settings.schema import Settings
from mindhold.settings.sections import fallbacks


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def load(
    home: Path, *, environ: dict[str, str] | None = None, arguments: dict[str, object] | None = None
) -> LoadedSettings:
    return load_settings({"home": home} | (arguments or {}), environ=environ or {})


def told(loaded: LoadedSettings, key: str) -> tuple[object, str]:
    info = next(info for info in loaded if info.key == key)
    return info.value, info.source


def test_a_default_says_that_it_is_one(tmp_path: Path) -> None:
    assert told(load(tmp_path), "recall.limit") == (10, "default")


def test_the_file_is_stronger_than_the_default(tmp_path: Path, config: Path) -> None:
    config.write_text("[recall]\nlimit = 7\n")
    assert told(load(tmp_path), "recall.limit") == (7, str(config))


def test_the_environment_is_stronger_than_the_file(tmp_path: Path, config: Path) -> None:
    config.write_text("[recall]\nlimit = 7\n")
    loaded = load(tmp_path, environ={"MINDHOLD_RECALL_LIMIT": "8"})
    assert told(loaded, "recall.limit") == (8, "MINDHOLD_RECALL_LIMIT")


def test_an_argument_is_stronger_than_all(tmp_path: Path, config: Path) -> None:
    config.write_text("[recall]\nlimit = 7\n")
    loaded = load(tmp_path, environ={"MINDHOLD_RECALL_LIMIT": "8"}, arguments={"recall.limit": 9})
    assert told(loaded, "recall.limit") == (9, "argument")
    assert loaded.settings.recall.limit == 9


def test_an_argument_that_was_not_given_says_nothing(tmp_path: Path) -> None:
    assert told(load(tmp_path, arguments={"agent": None}), "agent") == ("default", "default")


def test_sections_and_top_level_keys_are_read_from_one_file(tmp_path: Path, config: Path) -> None:
    config.write_text('agent = "ada"\n\n[store]\ndurability = "normal"\n\n[embedding]\nthreads = 2\n')
    settings = load(tmp_path).settings
    assert (settings.agent, settings.store.durability, settings.embedding.threads) == ("ada", "normal", 2)


def test_every_setting_has_a_description_and_a_variable_of_its_own(tmp_path: Path) -> None:
    infos = list(load(tmp_path))
    assert all(info.description for info in infos)
    assert len({info.variable for info in infos}) == len(infos)
    assert all(info.value == info.default for info in infos)


def test_every_setting_can_be_set_by_its_variable(tmp_path: Path) -> None:
    infos = list(load(tmp_path))
    environ = {variable_of(info.key): str(info.default) for info in infos}
    again = load(tmp_path, environ=environ)
    assert again.settings == Settings(home=tmp_path)
    assert {info.source for info in again} == set(environ)


def test_home_comes_from_its_variable(tmp_path: Path) -> None:
    loaded = load_settings(environ={"MINDHOLD_HOME": str(tmp_path / "there")})
    assert loaded.settings.home == tmp_path / "there"
    assert loaded.settings.database == tmp_path / "there" / "data" / "mindhold.db"


def test_home_as_an_argument_is_stronger_than_its_variable(tmp_path: Path) -> None:
    loaded = load_settings({"home": tmp_path / "a"}, environ={"MINDHOLD_HOME": str(tmp_path / "b")})
    assert loaded.settings.home == tmp_path / "a"


def test_without_a_word_home_is_a_folder_of_the_user() -> None:
    assert Settings().home == Path.home() / ".mindhold"


def test_the_database_can_be_elsewhere(tmp_path: Path) -> None:
    loaded = load(tmp_path, arguments={"store.path": str(tmp_path / "else.db")})
    assert loaded.settings.database == tmp_path / "else.db"


@pytest.mark.parametrize(
    ("word", "means"),
    [
        ("true", True),
        ("1", True),
        ("Yes", True),
        (" on ", True),
        ("false", False),
        ("0", False),
        ("OFF", False),
    ],
)
def test_booleans_are_read_as_people_write_them(tmp_path: Path, word: str, means: bool) -> None:
    loaded = load(tmp_path, environ={"MINDHOLD_INTAKE_REDACT": word})
    assert loaded.settings.intake.redact is means


def test_a_boolean_in_the_file_is_one(tmp_path: Path, config: Path) -> None:
    config.write_text("[intake]\nnoise_gate = false\n")
    assert load(tmp_path).settings.intake.noise_gate is False


def test_a_whole_number_serves_as_a_number(tmp_path: Path, config: Path) -> None:
    config.write_text("[recall]\nfloor = 0\n")
    assert load(tmp_path).settings.recall.floor == 0.0


def test_an_unknown_key_is_named_with_its_file_and_the_nearest_one(tmp_path: Path, config: Path) -> None:
    config.write_text("[recall]\nlimmit = 5\n")
    with pytest.raises(SettingsError) as caught:
        load(tmp_path)
    assert "recall.limmit" in str(caught.value)
    assert str(config) in str(caught.value)
    assert "Did you mean recall.limit?" in str(caught.value)


def test_an_unknown_section_is_named(tmp_path: Path, config: Path) -> None:
    config.write_text("[recal]\nlimit = 5\n")
    with pytest.raises(SettingsError, match="'recal' in "):
        load(tmp_path)


def test_an_unknown_argument_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"recall\.speed"):
        load(tmp_path, arguments={"recall.speed": 1})


def test_an_unknown_variable_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, environ={"MINDHOLD_RECAL_LIMIT": "5"})
    assert "MINDHOLD_RECAL_LIMIT" in str(caught.value)
    assert "Did you mean MINDHOLD_RECALL_LIMIT?" in str(caught.value)


def test_variables_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    assert load(tmp_path, environ={"PATH": "/bin", "MINDHOLDION": "x"}).settings == Settings(home=tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        '[recall]\nlimit = "many"',
        "[recall]\nlimit = 2.5",
        "[recall]\nlimit = true",
        '[intake]\nredact = "perhaps"',
        "[store]\npath = 5",
        '[store]\ndurability = "some"',
        "[store]\ndurability = [1]",
        '[recall]\nfloor = "low"',
        "agent = 5",
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_its_key_and_file(
    tmp_path: Path, config: Path, line: str
) -> None:
    config.write_text(line + "\n")
    key = line.split("\n")[-1].partition(" ")[0]
    with pytest.raises(SettingsError) as caught:
        load(tmp_path)
    assert key in str(caught.value)
    assert str(config) in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MINDHOLD_RECALL_LIMIT", "0"),
        ("MINDHOLD_RECALL_LIMIT", "201"),
        ("MINDHOLD_INTAKE_LONGEST", "99"),
        ("MINDHOLD_INTAKE_LINK_THRESHOLD", "1.01"),
        ("MINDHOLD_STORE_BUSY_TIMEOUT_MS", "-1"),
        ("MINDHOLD_RECALL_FLOOR", "-1.5"),
        ("MINDHOLD_RECALL_FLOOR", "nan"),
        ("MINDHOLD_RECALL_FLOOR", "inf"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_variable(tmp_path: Path, variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=variable):
        load(tmp_path, environ={variable: value})


def test_the_error_says_what_would_be_right(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="between 1 and 200"):
        load(tmp_path, environ={"MINDHOLD_RECALL_LIMIT": "1000"})
    with pytest.raises(SettingsError, match="one of full, normal"):
        load(tmp_path, environ={"MINDHOLD_STORE_DURABILITY": "none"})


@pytest.mark.parametrize("name", ["Mars/Olympus", "Europe", "../etc/passwd", "Europe/Berlin\n", "5", "a\0b"])
def test_a_time_zone_that_is_none_is_named_with_key_and_source(
    tmp_path: Path, config: Path, name: str
) -> None:
    with pytest.raises(SettingsError, match="MINDHOLD_TIME_ZONE") as caught:
        load(tmp_path, environ={"MINDHOLD_TIME_ZONE": name})
    assert "Europe/Berlin" in str(caught.value)
    with pytest.raises(SettingsError, match="time_zone in argument"):
        load(tmp_path, arguments={"time_zone": name})
    with pytest.raises(SettingsError, match="time_zone in the command line"):
        parsed_value("time_zone", name)
    config.write_text('time_zone = "Mars/Olympus"\n')
    with pytest.raises(SettingsError, match="time_zone") as caught:
        load(tmp_path)
    assert str(config) in str(caught.value)


def test_a_time_zone_may_be_left_to_the_machine(tmp_path: Path) -> None:
    for name in ("", "Asia/Seoul"):
        assert load(tmp_path, environ={"MINDHOLD_TIME_ZONE": name}).settings.time_zone == name


def test_broken_toml_is_named_with_its_line(tmp_path: Path, config: Path) -> None:
    config.write_text('agent = "ada"\n[recall\n')
    with pytest.raises(SettingsError, match="line 2") as caught:
        load(tmp_path)
    assert str(config) in str(caught.value)


def test_a_file_that_is_no_text_is_named(tmp_path: Path, config: Path) -> None:
    config.write_bytes(b"agent = \xff\xfe\n")
    with pytest.raises(SettingsError, match=r"config\.toml"):
        load(tmp_path)


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path, config: Path) -> None:
    config.mkdir()
    with pytest.raises(SettingsError, match="can't be read") as caught:
        load(tmp_path)
    assert str(config) in str(caught.value)


def test_a_value_typed_by_a_person_is_checked_like_any_other() -> None:
    assert parsed_value("recall.limit", "12") == 12
    with pytest.raises(SettingsError, match=r"recall\.limit in the command line"):
        parsed_value("recall.limit", "twelve")


def test_toolsets_are_those_that_there_are() -> None:
    from mindhold.contracts.mcp.tools import KNOWN
    from mindhold.settings.schema import TOOLSETS

    assert set(TOOLSETS) == set(KNOWN)
    for wrong in ("corre", "core,,all", ""):
        with pytest.raises(SettingsError, match="no list of toolsets"):
            parsed_value("toolsets", wrong)
    assert parsed_value("toolsets", "core, Assistant") == "core, Assistant"


def test_of_a_setting_s_other_names_the_first_wins_and_its_own_beats_them(tmp_path: Path) -> None:
    named = {"DB_HOST": "theirs", "POSTGRES_HOST": "ours"}
    assert told(load(tmp_path, environ=named), "postgres.host") == ("ours", "POSTGRES_HOST")
    assert told(load(tmp_path, environ={"DB_HOST": "only"}), "postgres.host") == ("only", "DB_HOST")
    own = {**named, "MINDHOLD_POSTGRES_HOST": "first"}
    assert told(load(tmp_path, environ=own), "postgres.host") == ("first", "MINDHOLD_POSTGRES_HOST")


def test_a_wrong_value_names_the_variable_that_was_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"postgres\.port in DB_PORT is 'abc'"):
        load(tmp_path, environ={"DB_PORT": "abc"})


def test_no_repr_has_a_secret(tmp_path: Path) -> None:
    plain = load(tmp_path)
    secrets: dict[str, object] = {info.key: "swordfish" for info in plain if info.secret}
    assert {"postgres.url", "mongodb.uri", "redis.password", "embedding.openai_key"} <= secrets.keys()
    loaded = load(tmp_path, arguments=secrets)
    assert loaded.settings.redis.password == "swordfish"
    assert "swordfish" not in repr(loaded)


class TestKeptKeys:
    """Of Anthropic, where other programs keep it."""

    JSON, FIRST, SECOND = ".memory-mcp/config.json", ".config/anthropic/api_key", ".anthropic/api_key"

    @pytest.fixture
    def own(self, tmp_path: Path) -> Path:
        for place in (self.JSON, self.FIRST, self.SECOND):
            (tmp_path / "own" / place).parent.mkdir(parents=True)
        return tmp_path / "own"

    def source(self, own: Path, **environ: str) -> tuple[str, str]:
        given = {"HOME": str(own), "MINDHOLD_LLM_PROVIDER": "anthropic"} | environ
        loaded = load(own.parent, environ=given)
        return loaded.settings.llm.anthropic_key, told(loaded, "llm.anthropic_key")[1]

    def test_the_order(self, own: Path, config: Path) -> None:
        assert self.source(own) == ("", "default")
        (own / self.SECOND).write_text("second\n")
        assert self.source(own) == ("second", str(own / self.SECOND))
        (own / self.FIRST).write_text("  first ")
        assert self.source(own) == ("first", str(own / self.FIRST))
        (own / self.JSON).write_text('\ufeff{"model": "haiku", "apiKey": " json "}', encoding="utf-8")
        assert self.source(own) == ("json", str(own / self.JSON))
        config.write_text('[llm]\nanthropic_key = "ours"\n')
        assert self.source(own) == ("ours", str(config))
        assert self.source(own, ANTHROPIC_API_KEY="env") == ("env", "ANTHROPIC_API_KEY")
        assert self.source(own, ANTHROPIC_API_KEY="") == ("ours", str(config))

    @pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe", b"two words", b"x" * 20_000])
    def test_what_is_no_key_is_passed_over(self, own: Path, content: bytes) -> None:
        (own / self.FIRST).write_bytes(content)
        (own / self.SECOND).write_text("second")
        assert self.source(own)[0] == "second"

    @pytest.mark.parametrize(
        "content",
        [
            '{"apiKey": ""}',
            '{"apiKey": 7}',
            '{"apiKey": "two words"}',
            '["apiKey"]',
            "bare",
            "{",
            "[" * 9_000,
        ],
    )
    def test_json_without_a_key_is_passed_over(self, own: Path, content: str) -> None:
        (own / self.JSON).write_text(content)
        (own / self.FIRST).write_text("first")
        assert self.source(own)[0] == "first"

    def test_a_folder_in_its_place_is_passed_over(self, own: Path) -> None:
        (own / self.FIRST).mkdir()
        (own / self.SECOND).write_text("second")
        assert self.source(own)[0] == "second"

    def test_it_is_read_only_where_it_is_needed(self, own: Path) -> None:
        (own / self.FIRST).write_text("first")
        assert self.source(own, MINDHOLD_LLM_PROVIDER="none") == ("", "default")
        chosen = {"MINDHOLD_LLM_PROVIDER": "claude_cli", "MINDHOLD_LLM_FALLBACK": "anthropic"}
        assert self.source(own, **chosen)[0] == "first"
        elsewhere = {"MINDHOLD_LLM_FALLBACK": "anthropic:m@https://other.example"}
        assert self.source(own, **chosen | elsewhere) == ("", "default")
        assert self.source(own, MINDHOLD_LLM_BASE_URL="https://other.example") == ("", "default")


class TestFallbacks:
    def test_whom_and_where(self) -> None:
        read = fallbacks("claude_cli, compatible:qwen3:8b@http://localhost:11434/v1 , openai:gpt-5-mini,")
        assert [(one.provider, one.model, one.address) for one in read] == [
            ("claude_cli", "", ""),
            ("compatible", "qwen3:8b", "http://localhost:11434/v1"),
            ("openai", "gpt-5-mini", ""),
        ]
        assert fallbacks("") == ()

    @pytest.mark.parametrize(
        "value", ["none", "claude", "compatible@localhost", "openai gpt-5", "rules", "openai:"]
    )
    def test_what_is_no_list_is_said(self, tmp_path: Path, value: str) -> None:
        with pytest.raises(SettingsError, match="no list of whom to ask next"):
            load(tmp_path, arguments={"llm.fallback": value})

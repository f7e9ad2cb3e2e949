"""`mindhold setup`: asks a few questions once and configures everything."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints
from urllib.parse import urlsplit

import click

from mindhold.interfaces.cli.command import command, with_session, words
from mindhold.interfaces.cli.config import warn_if_overridden, write_setting
from mindhold.interfaces.cli.init import InitRequest, init_document, init_request, print_outcome, run_init
from mindhold.interfaces.cli.installation import folder_of, is_person
from mindhold.interfaces.cli.output import neutral
from mindhold.interfaces.cli.session import CliSession
from mindhold.model.errors import InvalidInput, ModelError, Refused
from mindhold.model.host import LOOPBACK_HOSTS
from mindhold.settings.loader import HIDDEN, check_address, parsed_value
from mindhold.settings.sections import KINDS, LlmSettings, comma_list

if TYPE_CHECKING:
    pass


PROVIDERS: tuple[str, ...] = get_args(get_type_hints(LlmSettings)["provider"])
KEYS = {
    "anthropic": "llm.anthropic_key",
    "openai": "llm.openai_key",
    "compatible": "llm.compatible_key",
    "gemini_cli": "llm.gemini_key",
}
NEEDS_KEY = ("anthropic", "openai")
NONE, ALL, RULES, MODEL, AUTO = "none", "all", "rules", "model", "auto"
UNSAID = {"capture.kinds": "everything", "llm.base_url": "the provider's own"}  # what an empty one means
NOT_ASKED = "everywhere local claude_md agents_md gemini_md statusline no_mcp name toolsets".split()
NOBODY = "Setup asks a few questions, and nobody is there to answer."
NOT_AGREED = (
    "Conversations are not sent to {provider}: rules on this machine pick out what is kept. "
    "--extract-with model agrees to it."
)
NO_KEY = "There is no key to {provider}, which isn't asked anything until there is one: `mindhold config set {key}`."
NO_NAME = (
    "A compatible service is asked nothing until its model has a name: `mindhold config set llm.model NAME`."
)
ONLY_A_KEY = "Give a file with the key and nothing else."


@dataclass
class Choices:
    """What was chosen; None is still open. `settings` are written in the end."""

    pull: str | None = None  # a model's name; empty is the default one
    no_model: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    init: bool | None = None
    notes: list[str] = field(default_factory=list)


@command(
    "setup",
    local=True,
    examples=[
        "mindhold setup",
        "mindhold setup --yes",
        "mindhold setup --provider anthropic --key-from-env --extract-with model --yes",
        "mindhold setup --no-model --capture decision,error,preference --no-init --yes",
    ],
)
@click.option("--model", metavar="NAME", help="The embedding model to fetch; the default one unless given.")
@click.option("--no-model", is_flag=True, help="Fetch none: recall goes by words.")
@click.option("--provider", type=click.Choice(PROVIDERS), help="A language model, or none.")
@click.option(
    "--address", metavar="URL", help="Where a compatible service is, such as http://localhost:11434/v1."
)
@click.option("--llm-model", metavar="NAME", help="The language model; a compatible service needs its name.")
@click.option("--key-from-env", is_flag=True, help="The key stays in the environment, and is not stored.")
@click.option(
    "--key-file",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The key is in it; - is stdin.",
)
@words("--capture", choices=(ALL, *KINDS), metavar="KINDS", help="What is captured.")
@click.option(
    "--extract-with", type=click.Choice([RULES, MODEL]), help="model: conversations are sent to it."
)
@click.option(
    "--archive/--no-archive",
    default=None,
    help="Keep compressed copies of conversations, which Claude Code deletes after 30 days.",
)
@click.option("--init/--no-init", default=None, help="Set up the folder you are in as well.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask: what isn't given keeps its default.")
@with_session
async def setup(cli: CliSession, /, **given: Any) -> int:
    """Get ready, once: home folder, models, what to capture, what to keep. Each question has a flag."""
    console = cli.console
    asking = not given["yes"]
    if asking and not is_person(console):
        raise Refused(NOBODY, advice="Say --yes, with flags for what is to be other than usual.")
    choices = _given(cli, given)
    if asking:
        _ask(cli, choices, given, has_model=await _has_model(cli, choices))
    wish = _wish(cli, choices, asking=asking)
    _check(cli, choices)
    files = [str(write_setting(cli, key, value)) for key, value in choices.settings.items()]
    for key in choices.settings:
        warn_if_overridden(cli, key)
    model, failed = await _model(cli, choices)
    outcome = await run_init(cli, wish, yes=True) if wish else None
    shown = {key: HIDDEN if key in KEYS.values() else value for key, value in choices.settings.items()}
    home = str(cli.loaded().settings.home)
    if console.json:
        told = {"home": home, "file": files[0] if files else None, "settings": shown, "model": model}
        problem = str(failed) if failed else None
        console.document(
            {
                **told,
                "problem": problem,
                "notes": choices.notes,
                "init": init_document(wish, outcome) if wish and outcome else None,
            }
        )
    else:
        for key, value in shown.items():
            console.line(f"{key} = {neutral(value) or UNSAID.get(key, '')}")
        for note in choices.notes:
            console.warn(note)
        console.line(f"Ready: everything is kept in {neutral(home)}.")
        if wish and outcome:
            print_outcome(console, outcome, wish)
        else:
            console.note(
                "`mindhold init` in a project's folder lets Claude Code remember what is done there."
            )
    return failed.exit_status if failed and given["model"] else 0


def _given(cli: CliSession, given: dict[str, Any]) -> Choices:
    """What the flags say. Raises click.UsageError, InvalidInput."""
    if given["model"] and given["no_model"]:
        raise click.UsageError("--model and --no-model exclude each other.")
    if given["key_from_env"] and given["key_file"]:
        raise click.UsageError("--key-from-env and --key-file exclude each other.")
    choices = Choices(pull=given["model"], no_model=given["no_model"], init=given["init"])
    provider = given["provider"]
    if provider:
        choices.settings["llm.provider"] = provider
    if given["address"]:
        choices.settings["llm.base_url"] = given["address"]
    if given["llm_model"]:
        choices.settings["llm.model"] = given["llm_model"]
    present = cli.loaded().settings
    chosen = provider or present.llm.provider
    address, _ = _kept(present.llm, chosen)
    if provider == "compatible" and given["yes"] and not (given["address"] or address):
        raise click.UsageError("--provider compatible needs an --address.")
    if given["key_file"] or given["key_from_env"]:
        if chosen not in KEYS:
            raise click.UsageError("A key goes with --provider anthropic, openai, compatible or gemini_cli.")
        if given["key_file"]:
            choices.settings[KEYS[chosen]] = _key_in(given["key_file"])
        elif not _has_key(cli, chosen):
            raise InvalidInput(
                f"No key to {chosen} is in the environment.", advice="Set it, or say --key-file."
            )
    if given["archive"] is not None:
        choices.settings["history.archive"] = _switch(given["archive"])
    if given["capture"]:
        choices.settings["capture.kinds"] = "" if ALL in given["capture"] else ", ".join(given["capture"])
    if given["extract_with"]:
        if given["extract_with"] == MODEL and chosen == NONE:
            raise click.UsageError("--extract-with model needs a --provider.")
        choices.settings["capture.extract_with"] = given["extract_with"]
    elif provider == NONE:
        choices.settings["capture.extract_with"] = RULES
    elif given["yes"] and present.capture.extract_with == MODEL:
        before = (present.llm.provider, present.llm.base_url)
        after = (chosen, given["address"] or address)
        if after != before and not _stays_here(*after):  # whoever agreed to one hasn't agreed to another
            choices.settings = {"capture.extract_with": RULES, **choices.settings}
            choices.notes.append(NOT_AGREED.format(provider=chosen))
    return choices


def _kept(llm: LlmSettings, provider: str) -> tuple[str, str]:
    """Address and model that hold for that provider: another one's don't, for its key would go there."""
    left = llm.provider not in (NONE, provider)
    return ("", AUTO) if left else (llm.base_url, llm.model)


def _leave(llm: LlmSettings, choices: Choices) -> None:
    """What belongs to the provider that is left goes with it."""
    address, model = _kept(llm, choices.settings.get("llm.provider", llm.provider))
    for key, kept, is_now in (("llm.base_url", address, llm.base_url), ("llm.model", model, llm.model)):
        if kept != is_now:
            choices.settings.setdefault(key, kept)


def _stays_here(provider: str, address: str) -> bool:
    try:
        return provider == "compatible" and urlsplit(address).hostname in LOOPBACK_HOSTS
    except ValueError:  # no address, which is told of later
        return False


def _check(cli: CliSession, choices: Choices) -> None:
    """All of it, before any of it is written. Raises SettingsError, InvalidInput."""
    present = cli.loaded().settings
    _leave(present.llm, choices)
    for key, value in choices.settings.items():
        parsed_value(key, value)
        check_address(present, key, value)
        if key in KEYS.values() and not (value.isascii() and value.isprintable()):
            raise InvalidInput("The key has characters that no key has.", advice=ONLY_A_KEY)
    cli.loaded(**choices.settings)  # raises for what doesn't go together
    provider = choices.settings.get("llm.provider", present.llm.provider)
    if provider in NEEDS_KEY and KEYS[provider] not in choices.settings and not _has_key(cli, provider):
        choices.notes.append(NO_KEY.format(provider=provider, key=KEYS[provider]))
    if provider == "compatible" and choices.settings.get("llm.model", present.llm.model) == AUTO:
        choices.notes.append(NO_NAME)


async def _has_model(cli: CliSession, choices: Choices) -> bool:
    """Whether one is here already. Where there is no home there is none, and it isn't made only to look."""
    from mindhold.memories.embedding_models import LIST_MODELS

    settings = cli.loaded().settings
    if (
        choices.pull
        or choices.no_model
        or settings.embedding.provider != "local"
        or not settings.home.is_dir()
    ):
        return False
    async with cli.open() as session:
        known = await session.run(LIST_MODELS)
    return any(one.installed and one.dimensions for one in known.models)


def _ask(cli: CliSession, choices: Choices, given: dict[str, Any], *, has_model: bool) -> None:
    """What the flags left open, each with an answer that suits most; what stays as it is isn't written."""
    loaded = cli.loaded()
    told = (
        f"Mindhold keeps everything in {loaded.settings.home}. Nothing leaves this machine unless you say so."
    )
    click.echo(told, err=True)
    local = loaded.settings.embedding.provider == "local"
    if local and choices.pull is None and not choices.no_model and not has_model:
        question = "Fetch a small model, so that recall goes by meaning and not by words alone?"
        choices.no_model = not click.confirm(question, default=True, err=True)
    asked = {
        **_ask_model(cli, choices, given),
        **_ask_kinds(loaded.settings.capture.kinds, given),
        **_ask_archive(loaded.settings.history.archive, given),
    }
    present = {info.key: info.value for info in loaded}
    choices.settings |= {key: value for key, value in asked.items() if present[key] != value}


def _ask_model(cli: CliSession, choices: Choices, given: dict[str, Any]) -> dict[str, str]:
    llm = cli.loaded().settings.llm
    asked: dict[str, str] = {}
    provider = given["provider"]
    if not provider:
        question = (
            "A language model, for answers in sentences and a finer choice of what to keep; none is needed"
        )
        provider = click.prompt(question, type=click.Choice(PROVIDERS), default=llm.provider, err=True)
        asked["llm.provider"] = provider
    address, model = _kept(llm, provider)
    if provider == "compatible" and not (given["address"] or address):
        asked["llm.base_url"] = click.prompt("Its address", default="http://localhost:11434/v1", err=True)
    if provider == "compatible" and not given["llm_model"] and model == AUTO:
        asked["llm.model"] = click.prompt("Its model, by the name that the service has for it", err=True)
    if provider in NEEDS_KEY and KEYS[provider] not in choices.settings and not _has_key(cli, provider):
        key: str = click.prompt(f"Key to {provider} (not shown)", hide_input=True, err=True)
        asked[KEYS[provider]] = key.strip()
    if given["extract_with"] is None:
        question = (
            f"May {provider} be sent your conversations, without secrets, to pick out what is worth keeping? "
            "Otherwise rules on this machine do"
        )
        sends = provider != NONE and click.confirm(question, default=False, err=True)
        asked["capture.extract_with"] = MODEL if sends else RULES
    return asked


def _ask_kinds(present: str, given: dict[str, Any]) -> dict[str, str]:
    if given["capture"]:
        return {}
    question = f"What shall be captured: all, or some of {', '.join(KINDS)}"
    chosen: str = click.prompt(question, default=present or ALL, value_proc=_kinds, err=True)
    return {"capture.kinds": chosen}


def _ask_archive(present: bool, given: dict[str, Any]) -> dict[str, str]:
    if given["archive"] is not None:
        return {}
    question = (
        "Claude Code deletes conversations after 30 days. May compressed copies of them be kept here, so that they can "
        "still be found? They are whole, with secrets that were typed into them, and readable by you alone."
    )
    wanted = click.confirm(question, default=present, err=True)
    return {"history.archive": _switch(wanted)} if wanted != present else {}


def _switch(on: bool) -> str:
    return str(on).lower()


def _kinds(text: str) -> str:
    names = comma_list(text)
    if ALL in names or not names:
        return ""
    wrong = [name for name in names if name not in KINDS]
    if wrong:
        raise click.UsageError(f"{wrong[0]!r} is none of {', '.join(KINDS)}.")
    return ", ".join(names)


async def _model(cli: CliSession, choices: Choices) -> tuple[str | None, ModelError | None]:
    """The model that is here in the end. One that can't be fetched keeps nobody from going on."""
    from mindhold.memories.embedding_models import LIST_MODELS, PULL_MODEL

    if choices.no_model or cli.loaded().settings.embedding.provider != "local":
        return None, None
    async with cli.open() as session:
        known = await session.run(LIST_MODELS)
        here = [one.name for one in known.models if one.installed and one.dimensions]
        if here and not choices.pull:
            return here[0], None
        try:
            pulled = await session.run(PULL_MODEL, name=choices.pull)
        except ModelError as error:
            cli.console.warn(f"{error} Recall goes by words until `mindhold models pull` succeeds.")
            return None, error
    if not cli.console.json:
        cli.console.line(f"The model {neutral(pulled.model.name)} is here.")
    return pulled.model.name, None


def _wish(cli: CliSession, choices: Choices, *, asking: bool) -> InitRequest | None:
    """Whether this folder is to be set up too; asked of a person unless a flag says."""
    wanted = choices.init
    if wanted is None and not asking:
        return None
    here = folder_of(None)
    if wanted is None:
        question = f"Let Claude Code remember what is worked on in {here}?"
        wanted = here != Path.home().resolve() and click.confirm(question, default=True, err=True)
    if not wanted:
        return None
    plain: dict[str, Any] = dict.fromkeys(NOT_ASKED)
    return init_request(cli.console, **plain, folder=here, yes=not asking, dry_run=False)


def _has_key(cli: CliSession, provider: str) -> bool:
    name = KEYS[provider].partition(".")[2]
    loaded = cli.loaded(**{"llm.provider": provider}).settings
    return bool(getattr(loaded.llm, name))


def _key_in(path: Path) -> str:
    """Raises InvalidInput."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} can't be read.", advice=ONLY_A_KEY) from error
    if len(text.split()) != 1:
        raise InvalidInput(f"{path} holds no key.", advice=ONLY_A_KEY)
    return text.strip()

"""`mindhold setup`: asks a few questions once and configures everything."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_type_hints
from urllib.parse import urlsplit

import click

from mindhold.interfaces.cli.command import command, with_session, words
from mindhold.interfaces.cli.config import warn_if_overridden, write_setting
from mindhold.interfaces.cli.init import InitRequest, init_document, init_request, print_outcome, run_init
from mindhold.interfaces.cli.installation import folder_of
from mindhold.interfaces.cli.models import installed_models
from mindhold.interfaces.cli.output import neutral
from mindhold.interfaces.cli.past import read_past
from mindhold.interfaces.cli.session import CliSession
from mindhold.model.errors import InvalidInput, ModelError, Refused
from mindhold.model.host import LOOPBACK_HOSTS
from mindhold.settings.loader import HIDDEN, check_address, parsed_value
from mindhold.settings.sections import KINDS, LlmSettings, comma_list

PROVIDERS: tuple[str, ...] = get_args(get_type_hints(LlmSettings)["provider"])
KEYS = {
    "anthropic": "llm.anthropic_key",
    "openai": "llm.openai_key",
    "compatible": "llm.compatible_key",
    "gemini_cli": "llm.gemini_key",
}
NEEDS_KEY = ("anthropic", "openai")
NONE, ALL, RULES, MODEL, AUTO = "none", "all", "rules", "model", "auto"
UNSAID = {
    "capture.kinds": "everything",
    "llm.base_url": "the provider's own",
}  # the meaning of an empty value
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
    """The choices of the user; None is still open. `settings` are written at the end."""

    pull: str | None = None  # name of a model; empty means the default one
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
@click.option("--model", metavar="NAME", help="The embedding model to fetch (default: the small one).")
@click.option("--no-model", is_flag=True, help="Fetch no model: recall searches by words.")
@click.option("--provider", type=click.Choice(PROVIDERS), help="The provider of a language model, or none.")
@click.option(
    "--address", metavar="URL", help="The URL of a compatible service, such as http://localhost:11434/v1."
)
@click.option("--llm-model", metavar="NAME", help="The language model; a compatible service needs its name.")
@click.option("--key-from-env", is_flag=True, help="Use the key from the environment and don't store it.")
@click.option(
    "--key-file",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Read the key from this file; - is stdin.",
)
@words("--capture", choices=(ALL, *KINDS), metavar="KINDS", help="What to capture.")
@click.option(
    "--extract-with",
    type=click.Choice([RULES, MODEL]),
    help="How to extract memories; `model` sends it your conversations.",
)
@click.option(
    "--archive/--no-archive",
    default=None,
    help="Keep compressed copies of conversations, which Claude Code deletes after 30 days.",
)
@click.option("--init/--no-init", default=None, help="Also set up the current folder.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask; use defaults for what isn't given.")
@with_session
async def setup(cli: CliSession, /, **flags: Any) -> int:
    """Set Mindhold up: models, capture and archive.

    It asks a few questions; each has a flag.
    """
    console = cli.console
    asking = not flags["yes"]
    if asking and not console.is_interactive:
        raise Refused(NOBODY, advice="Say --yes, with flags for what is to be other than usual.")
    choices = _read_flags(cli, flags)
    if asking:
        _ask(cli, choices, flags, has_model=await _has_model(cli, choices))
    request = _init_request(cli, choices, asking=asking)
    _check(cli, choices)
    files = [str(write_setting(cli, key, value)) for key, value in choices.settings.items()]
    for key in choices.settings:
        warn_if_overridden(cli, key)
    model, failed = await _ensure_model(cli, choices)
    outcome = await run_init(cli, request, yes=True) if request else None
    settings = {key: HIDDEN if key in KEYS.values() else value for key, value in choices.settings.items()}
    home = str(cli.loaded().settings.home)
    document = {
        "home": home,
        "file": files[0] if files else None,
        "settings": settings,
        "model": model,
        "problem": str(failed) if failed else None,
        "notes": choices.notes,
        "init": init_document(outcome) if outcome else None,
    }
    if not console.as_json(document):
        for key, value in settings.items():
            console.line(f"{key} = {neutral(value) or UNSAID.get(key, '')}")
        for note in choices.notes:
            console.warn(note)
        console.line(f"Ready: everything is kept in {neutral(home)}.")
        if outcome and request:
            print_outcome(console, outcome)
            await read_past(cli, request.folder, wanted=None if asking else False)
        else:
            console.note(
                "`mindhold init` in a project's folder lets Claude Code remember what is done there."
            )
    return failed.exit_status if failed and flags["model"] else 0


def _read_flags(cli: CliSession, flags: dict[str, Any]) -> Choices:
    """Turn the flags into choices. Raises click.UsageError, InvalidInput."""
    if flags["model"] and flags["no_model"]:
        raise click.UsageError("--model and --no-model exclude each other.")
    if flags["key_from_env"] and flags["key_file"]:
        raise click.UsageError("--key-from-env and --key-file exclude each other.")
    choices = Choices(pull=flags["model"], no_model=flags["no_model"], init=flags["init"])
    provider = flags["provider"]
    for flag, key in (("provider", "llm.provider"), ("address", "llm.base_url"), ("llm_model", "llm.model")):
        if flags[flag]:
            choices.settings[key] = flags[flag]
    present = cli.loaded().settings
    effective_provider = provider or present.llm.provider
    address, _ = _address_and_model(present.llm, effective_provider)
    if provider == "compatible" and flags["yes"] and not (flags["address"] or address):
        raise click.UsageError("--provider compatible needs an --address.")
    if flags["key_file"] or flags["key_from_env"]:
        if effective_provider not in KEYS:
            raise click.UsageError("A key goes with --provider anthropic, openai, compatible or gemini_cli.")
        if flags["key_file"]:
            choices.settings[KEYS[effective_provider]] = _read_key(flags["key_file"])
        elif not _has_key(cli, effective_provider):
            raise InvalidInput(
                f"No key to {effective_provider} is in the environment.", advice="Set it, or say --key-file."
            )
    if flags["archive"] is not None:
        choices.settings["history.archive"] = str(flags["archive"]).lower()
    if flags["capture"]:
        choices.settings["capture.kinds"] = "" if ALL in flags["capture"] else ", ".join(flags["capture"])
    if flags["extract_with"]:
        if flags["extract_with"] == MODEL and effective_provider == NONE:
            raise click.UsageError("--extract-with model needs a --provider.")
        choices.settings["capture.extract_with"] = flags["extract_with"]
    elif provider == NONE:
        choices.settings["capture.extract_with"] = RULES
    elif flags["yes"] and present.capture.extract_with == MODEL:
        before = (present.llm.provider, present.llm.base_url)
        after = (effective_provider, flags["address"] or address)
        if after != before and not _stays_here(*after):  # consent to one service isn't consent to another
            choices.settings = {"capture.extract_with": RULES, **choices.settings}
            choices.notes.append(NOT_AGREED.format(provider=effective_provider))
    return choices


def _address_and_model(llm: LlmSettings, provider: str) -> tuple[str, str]:
    """Return the address and model to use with a provider; those of another provider don't apply."""
    is_other = llm.provider not in (NONE, provider)
    return ("", AUTO) if is_other else (llm.base_url, llm.model)


def _stays_here(provider: str, address: str) -> bool:
    try:
        return provider == "compatible" and urlsplit(address).hostname in LOOPBACK_HOSTS
    except ValueError:  # not a URL; checked later
        return False


def _check(cli: CliSession, choices: Choices) -> None:
    """Check all settings before any is written. Raises SettingsError, InvalidInput.

    The address and model of a provider that is no longer used are reset.
    """
    present = cli.loaded().settings
    llm = present.llm
    address, model = _address_and_model(llm, choices.settings.get("llm.provider", llm.provider))
    if address != llm.base_url:
        choices.settings.setdefault("llm.base_url", address)
    if model != llm.model:
        choices.settings.setdefault("llm.model", model)
    for key, value in choices.settings.items():
        parsed_value(key, value)
        check_address(present, key, value)
        if key in KEYS.values() and not (value.isascii() and value.isprintable()):
            raise InvalidInput("The key has characters that no key has.", advice=ONLY_A_KEY)
    cli.loaded(**choices.settings)  # raises for settings that contradict each other
    provider = choices.settings.get("llm.provider", present.llm.provider)
    if provider in NEEDS_KEY and KEYS[provider] not in choices.settings and not _has_key(cli, provider):
        choices.notes.append(NO_KEY.format(provider=provider, key=KEYS[provider]))
    if provider == "compatible" and choices.settings.get("llm.model", present.llm.model) == AUTO:
        choices.notes.append(NO_NAME)


async def _has_model(cli: CliSession, choices: Choices) -> bool:
    """Whether a model is installed. Without a home folder there is none, and none is created to look."""
    settings = cli.loaded().settings
    is_local = settings.embedding.provider == "local" and settings.home.is_dir()
    if choices.pull or choices.no_model or not is_local:
        return False
    async with cli.open() as session:
        return bool(await installed_models(session))


def _ask(cli: CliSession, choices: Choices, flags: dict[str, Any], *, has_model: bool) -> None:
    """Ask what the flags left open. Settings that don't change aren't written."""
    loaded = cli.loaded()
    home = loaded.settings.home
    click.echo(
        f"Mindhold keeps everything in {home}. Nothing leaves this machine unless you say so.", err=True
    )
    local = loaded.settings.embedding.provider == "local"
    if local and choices.pull is None and not choices.no_model and not has_model:
        question = "Fetch a small model, so that recall goes by meaning and not by words alone?"
        choices.no_model = not click.confirm(question, default=True, err=True)
    answers = _ask_model(cli, choices, flags)
    if not flags["capture"]:
        question = f"What shall be captured: all, or some of {', '.join(KINDS)}"
        kinds = loaded.settings.capture.kinds or ALL
        answers["capture.kinds"] = click.prompt(question, default=kinds, value_proc=_parse_kinds, err=True)
    if flags["archive"] is None:
        question = (
            "Claude Code deletes conversations after 30 days. May compressed copies of them be kept here, so that they "
            "can still be found? They are whole, with secrets that were typed into them, and readable by you alone."
        )
        keep = click.confirm(question, default=loaded.settings.history.archive, err=True)
        if keep != loaded.settings.history.archive:
            answers["history.archive"] = str(keep).lower()
    present = {info.key: info.value for info in loaded}
    choices.settings |= {key: value for key, value in answers.items() if present[key] != value}


def _ask_model(cli: CliSession, choices: Choices, flags: dict[str, Any]) -> dict[str, str]:
    llm = cli.loaded().settings.llm
    answers: dict[str, str] = {}
    provider = flags["provider"]
    if not provider:
        question = (
            "A language model, for answers in sentences and a finer choice of what to keep; none is needed"
        )
        provider = click.prompt(question, type=click.Choice(PROVIDERS), default=llm.provider, err=True)
        answers["llm.provider"] = provider
    address, model = _address_and_model(llm, provider)
    if provider == "compatible" and not (flags["address"] or address):
        answers["llm.base_url"] = click.prompt("Its address", default="http://localhost:11434/v1", err=True)
    if provider == "compatible" and not flags["llm_model"] and model == AUTO:
        answers["llm.model"] = click.prompt("Its model, by the name that the service has for it", err=True)
    if provider in NEEDS_KEY and KEYS[provider] not in choices.settings and not _has_key(cli, provider):
        key: str = click.prompt(f"Key to {provider} (not shown)", hide_input=True, err=True)
        answers[KEYS[provider]] = key.strip()
    if flags["extract_with"] is None:
        question = (
            f"May {provider} be sent your conversations, without secrets, to pick out what is worth keeping? "
            "Otherwise rules on this machine do"
        )
        sends = provider != NONE and click.confirm(question, default=False, err=True)
        answers["capture.extract_with"] = MODEL if sends else RULES
    return answers


def _parse_kinds(text: str) -> str:
    names = comma_list(text)
    if ALL in names or not names:
        return ""
    wrong = [name for name in names if name not in KINDS]
    if wrong:
        raise click.UsageError(f"{wrong[0]!r} is none of {', '.join(KINDS)}.")
    return ", ".join(names)


async def _ensure_model(cli: CliSession, choices: Choices) -> tuple[str | None, ModelError | None]:
    """Fetch the model if needed and return its name, or the error: setup continues without it."""
    from mindhold.memories.embedding import PULL_MODEL

    if choices.no_model or cli.loaded().settings.embedding.provider != "local":
        return None, None
    async with cli.open() as session:
        installed = await installed_models(session)
        if installed and not choices.pull:
            return installed[0], None
        try:
            pulled = await session.run(PULL_MODEL, name=choices.pull)
        except ModelError as error:
            cli.console.warn(f"{error} Recall goes by words until `mindhold models pull` succeeds.")
            return None, error
    if not cli.console.json:
        cli.console.line(f"The model {neutral(pulled.model.name)} is here.")
    return pulled.model.name, None


def _init_request(cli: CliSession, choices: Choices, *, asking: bool) -> InitRequest | None:
    """Return the request to set up this folder too, if a flag or the user wants it."""
    wants_init = choices.init
    if wants_init is None and not asking:
        return None
    folder = folder_of(None)
    if wants_init is None:
        question = f"Let Claude Code remember what is worked on in {folder}?"
        wants_init = folder != Path.home().resolve() and click.confirm(question, default=True, err=True)
    if not wants_init:
        return None
    options: dict[str, Any] = dict.fromkeys(NOT_ASKED)
    return init_request(cli.console, **options, folder=folder, yes=not asking, dry_run=False)


def _has_key(cli: CliSession, provider: str) -> bool:
    name = KEYS[provider].partition(".")[2]
    loaded = cli.loaded(**{"llm.provider": provider}).settings
    return bool(getattr(loaded.llm, name))


def _read_key(path: Path) -> str:
    """Read the key from a file or stdin. Raises InvalidInput."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} can't be read.", advice=ONLY_A_KEY) from error
    if len(text.split()) != 1:
        raise InvalidInput(f"{path} holds no key.", advice=ONLY_A_KEY)
    return text.strip()

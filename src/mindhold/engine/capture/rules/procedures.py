"""Procedures: the commands by which things are done here, as they were seen to work or were given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mindhold.engine.capture.rules.candidate import LONGEST, Candidate
from mindhold.engine.capture.rules.deeds import Deed, bare, by_runner, commands, is_whole, purpose_of
from mindhold.engine.capture.rules.speech import Sentence, plain
from mindhold.engine.capture.rules.standing import tidy
from mindhold.engine.text.expression import Expression
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, Step

OFTEN = 2  # successes, unless a task runner is called
LONGEST_GIVEN = 200

_WORDING = {
    "tests": "Run the tests with {}.",
    "integration tests": "Run the integration tests with {}.",
    "type check": "Check the types with {}.",
    "linter": "Run the linter with {}.",
    "formatter": "Format the code with {}.",
    "build": "Build with {}.",
    "migrations": "Run the migrations with {}.",
    "deployment": "Deploy or release with {}.",
    "generated code": "Generate code with {}.",
    "development server": "Start the development server with {}.",
}
_NAMED_TASK = Expression(
    r"^(?:mise (?:run|r) |make |just |task |npm (?:run |test)|pnpm |yarn |bun run|deno task|poe |rake |nox|tox|bin/|\./scripts?/|scripts?/|turbo |nx |invoke |inv |\./gradlew |mix )"
)
_WHOLE = Expression(
    r"go (?:build|test|vet)(?: -[vx]| -race)* \./(?:[\w./-]*/)?(?:\.\.\.)?|cargo (?:build|test|check|clippy|fmt|nextest run)(?: --?\S+)*|(?:python3? -m )?pytest(?: -\w+)*|(?:uv run |poetry run )\w+(?: --?\S+| \.)*"
    r"|ruff (?:check|format)(?: \.)?|mypy \.|(?:npx )?tsc(?: --noEmit| -b)?|(?:npx )?(?:vitest|jest|eslint)(?: run| \.)?|dotnet (?:build|test)|swift (?:build|test)|mvn \w+|gradle \w+|flutter \w+"
)
_GIVEN = Expression(
    r"^(?P<lead>[^\n]{0,300})\n{1,3}[ \t]*```(?:bash|sh|shell|console|zsh|powershell|)[ \t]*\n(?P<code>.*?)\n[ \t]*```",
    re.DOTALL | re.MULTILINE,
)
_HOW_TO = Expression(
    r"\b(?:re-?build|build|run|test|start|deploy|install|use|profile|verify|launch|debug|release|publish|generate|update|upgrade|enable|disable|configure|set ?up|try|invoke|execute|reproduce|command|with)\b[^\n]{0,90}:\s*$",
    re.IGNORECASE,
)
_ADVICE = Expression(
    r"\b(?:run|running|use|using|execute|invoke)\b[^.`]{0,24}`([^`]{4,120})`[^.]*?\b(?:to|for|before|after|whenever|if|when) \w+",
    re.IGNORECASE,
)
_TO_DO = Expression(r"^to \w+[^,`]{2,60}, (?:run|use|execute|call) `([^`]{4,120})`", re.IGNORECASE)
_NOT_ADVICE = Expression(
    r"\b(?:want me|should i|shall i|i'll|i will|let me|would you|i ran|i used|now uses?|will (?:now )?(?:use|run)|this|that|these|it|we (?:could|might))\b",
    re.IGNORECASE,
)
_ASKED_FOR = Expression(r"\b(?:command|how (?:do|can|to)|what do i run|script)\b", re.IGNORECASE)
_PROMPT = Expression(r"^\s*(?:\$|>|❯|%|#)\s+")
_COMMAND = Expression(
    r"^(?:\./|\.\\|~/|bin/|scripts?/)[\w./-]+(?:\s|$)|^(?:sudo |cd [\w./-]+ && )?(?:git|gh|go|npm|npx|pnpm|yarn|bun|node|deno|python3?|pip3?|uv|uvx|poetry|pytest|ruff|mypy|cargo|rustup|make|just|mise|task|docker|docker-compose|podman"
    r"|kubectl|helm|terraform|aws|gcloud|az|fly|vercel|netlify|wrangler|heroku|psql|mysql|sqlite3|redis-cli|mongosh|curl|wget|brew|apt|apt-get|gradle|mvn|java|dotnet|swift|xcodebuild|flutter|dart|ruby|rails|rake|bundle|php|composer"
    r"|artisan|mix|elixir|zig|cmake|ninja|bazel|tox|nox|hatch|pre-commit|claude|codex|gemini|ssh|rsync|tail|export|source|eval|openssl|ollama|systemctl|journalctl|launchctl|ansible|vagrant|nix|conda|jupyter|streamlit|uvicorn|gunicorn|flask|celery|alembic|prisma)\s"
)


def procedures(
    done: Sequence[Deed], said: Sequence[Sentence], steps: Sequence[Step], counts: dict[str, int]
) -> Iterator[Candidate]:
    """`counts` are the successes of each command so far, in earlier calls as well; they are added to."""
    told: set[str] = set()
    for deed in done:
        if not deed.shell or deed.failed or deed.refused or not deed.answered or deed.aside:
            continue
        for command in commands(deed.asked):
            purpose = purpose_of(command)
            if purpose not in _WORDING or not is_whole(command) or not by_runner(command):
                continue
            counts[command] = counts.get(command, 0) + 1
            enough = 1 if _NAMED_TASK.match(command) or _WHOLE.fullmatch(command) else OFTEN
            if counts[command] >= enough and purpose not in told:
                told.add(purpose)
                text = _WORDING[purpose].format(f"`{command}`")
                yield Candidate(Kind.PROCEDURE, text, deed.line, 0.85 if enough == 1 else 0.75)
    yield from _given(steps)
    yield from _advised(said)


def _advised(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """ "Run `x` to get y": a command with what it is for, in a sentence."""
    for sentence in said:
        if sentence.role != Role.CLAUDE or not sentence.closing or sentence.aside or sentence.speculative:
            continue
        text = tidy(sentence.text)
        found = _ADVICE.search(text) or _TO_DO.match(text)
        if (
            found
            and _COMMAND.match(f"{bare(found[1])} ")
            and not text.endswith("?")
            and not _NOT_ADVICE.search(text)
            and len(text) <= LONGEST
        ):
            yield Candidate(Kind.PROCEDURE, text, sentence.line, 0.7)


def _given(steps: Sequence[Step]) -> Iterator[Candidate]:
    """A command that the assistant gave to the person, with what it is for."""
    asked = ""
    for step in steps:
        if step.aside:
            continue
        if step.role == Role.USER:
            asked = " ".join(step.text.split())
        elif step.role == Role.CLAUDE:
            yield from _in(step, asked)


def _in(step: Step, asked: str) -> Iterator[Candidate]:
    for found in _GIVEN.finditer(f"\n{step.text}"):
        lines = [_PROMPT.sub("", line).strip() for line in found["code"].splitlines()]
        lines = [line for line in lines if line and not line.startswith("#")]
        lead = plain(found["lead"]).strip()
        if (
            not 1 <= len(lines) <= 3
            or not all(_COMMAND.match(bare(line)) for line in lines)
            or sum(map(len, lines)) > LONGEST_GIVEN
            or any("/Users/" in line or "/home/" in line for line in lines)
        ):
            continue
        if (
            not lead
            and step.text.lstrip().startswith("```")
            and _ASKED_FOR.search(asked)
            and len(asked) <= 120
        ):
            purpose = purpose_of(lines[-1]) if len(lines) == 1 else ""
            if purpose in _WORDING:
                yield Candidate(Kind.PROCEDURE, _WORDING[purpose].format(f"`{lines[0]}`"), step.line, 0.75)
            continue
        if not _HOW_TO.search(lead) or re.search(
            r"\b(?:output|result|error|example|before|after|currently|shows?|simplest|or|way)\b",
            lead,
            re.IGNORECASE,
        ):
            continue
        lead = re.sub(
            r"^(?:done[.!]?|now|then|and|so|you can(?: now)?|to)\s+",
            "",
            lead.rstrip(": "),
            flags=re.IGNORECASE,
        )
        lead = re.split(r"(?<=[.!?]) ", lead)[-1]
        if len(lead.split()) < 2:
            continue
        code = ", then ".join(f"`{line}`" for line in lines)
        text = f"{lead[0].upper()}{lead[1:]}: {code}"
        if len(text) <= LONGEST:
            yield Candidate(Kind.PROCEDURE, text, step.line, 0.75)

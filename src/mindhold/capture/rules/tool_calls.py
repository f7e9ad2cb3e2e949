"""What tools did: each call with its result, and what a command is for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mindhold.model.error_signs import error_signs
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.pattern import LazyPattern

SHELLS = frozenset(("Bash", "PowerShell", "Shell", "bash", "shell"))
WRITERS = frozenset(
    ("Edit", "MultiEdit", "Write", "NotebookEdit", "Update", "str_replace_based_edit_tool", "apply_patch")
)
LONGEST_COMMAND = 160

_ENVIRONMENT = LazyPattern(r"^(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\S*)\s+)+")
_TAIL = LazyPattern(
    r"\s*(?:\d?>&?\d?\s*(?:/dev/null|&1|&2|\S+)|2>&1|&>\s*\S+|\|&?\s*(?:tail|head|grep|egrep|rg|less|cat|tee|wc|sort|sed|awk|cut|uniq|jq|xargs)\b[^|&;]*"
    r"|\|\|\s*(?:true|echo\b[^|&;]*)|;\s*echo\b[^;&|]*)\s*$"
)
_MOVE = LazyPattern(
    r"^(?:cd|pushd|popd|set|export|source|\.|sleep|echo|printf|time|true|clear|mkdir|touch|pwd|ls|cat|sudo -v)\b"
)
_REFUSED = LazyPattern(
    r"<tool_use_error>|doesn't want to proceed|user rejected|Request interrupted|has not been read yet|modified since read|permission to use|requires approval"
    r"|was blocked|Cancelled|\[Request interrupted|timed? ?out after \d+|InputValidationError|hook (?:error|blocked)",
    re.IGNORECASE,
)
_SHOWS_FAILURE = LazyPattern(
    r"^(?:FAIL\b|--- FAIL|FAILED |ERROR |error(?:\[\w+\])?: |E  +\w|.*\b\d+ (?:failed|failing)\b|.*\berror TS\d+|✗ |npm ERR!|Traceback |panic: |.*\btask failed"
    r"|Exit code [1-9])",
    re.MULTILINE,
)
# What a command is for, the more telling first.
_PURPOSES: tuple[tuple[str, str], ...] = (
    (
        "integration tests",
        r"\b(?:test[:_-]?(?:integration|e2e|ci|all)|integration[:_-]?tests?|e2e|playwright test|cypress run|-tags[= ]integration)\b",
    ),
    (
        "tests",
        r"\b(?:tests?|pytest|jest|vitest|mocha|rspec|phpunit|tox|nox|unittest|spec|ctest|nextest|testing)\b",
    ),
    (
        "type check",
        r"\b(?:mypy|pyright|tsc|typecheck|type-check|check-types|types|cargo check|flow check|go vet|vet)\b",
    ),
    (
        "linter",
        r"\b(?:lint\w*|ruff check|eslint|golangci-lint|clippy|flake8|pylint|rubocop|biome (?:check|lint)|shellcheck|swiftlint|stylelint)\b",
    ),
    ("formatter", r"\b(?:fmt|format|gofmt|prettier|black|rustfmt|ruff format|isort|gofumpt|swiftformat)\b"),
    (
        "migrations",
        r"\b(?:migrate|migrations?|alembic|db:migrate|prisma (?:migrate|db push|generate)|knex migrate)\b",
    ),
    (
        "deployment",
        r"\b(?:deploy|kubectl apply|terraform apply|helm (?:install|upgrade)|fly deploy|vercel|netlify deploy|serverless deploy|cdk deploy|release|publish|goreleaser)\b",
    ),
    ("generated code", r"\b(?:generate|codegen|protoc|sqlc|go generate|gen)\b"),
    (
        "installation",
        r"\b(?:npm (?:ci|install|i)|pnpm (?:install|i|add)|yarn (?:install|add)|pip install|uv (?:sync|pip install|add)|poetry (?:install|add)|bundle install|go mod (?:tidy|download)|cargo (?:add|install)|brew install|apt(?:-get)? install|mise install|composer install|dotnet restore)\b",
    ),
    (
        "build",
        r"\b(?:build|compile|make|cargo build|go build|gradlew? assemble|mvn package|webpack|vite build|tsup|bundle|xcodebuild|cmake|docker build|package|dist)\b",
    ),
    (
        "development server",
        r"\b(?:dev|serve|start|runserver|uvicorn|flask run|rails s(?:erver)?|docker[ -]compose up|air|nodemon)\b",
    ),
)
_CHANGING_PURPOSES = ("installation", "migrations", "generated code")
_CHANGING = LazyPattern(
    r"^(?:sudo )?(?:cp|mv|touch|mkdir|ln|chmod|chown|sed -i|patch|tee|rm|export|unset|createdb|dropdb|docker(?:[ -]compose)? (?:up|start|restart|pull|run|volume|network)"
    r"|systemctl (?:start|restart|enable)|service \S+ (?:start|restart)|brew (?:install|services)|git (?:checkout|restore|pull|submodule|lfs|config|stash)"
    r"|npm (?:rebuild|cache)|pip3? install|python3? -m pip install|nvm (?:use|install)|pyenv (?:install|local)|rustup|corepack|mise (?:use|install|trust))\b"
)
_WRITING = LazyPattern(r"(?<![0-9&>|-])>{1,2}\s*(?!/dev/|&)[\w./~$\"'-]")
_REMOVING = LazyPattern(r"^(?:cd \S+ && )?(?:rm|git rm|del|Remove-Item)\s")
_LOOKING = LazyPattern(
    r"^(?:grep|rg|ag|find|fd|ls|cat|head|tail|sed|awk|wc|git|gh|glab|curl|wget|echo|which|type|file|stat|diff|tree|ps|kill|pkill|rm|mv|cp|chmod|touch|mkdir|test|\[|jq|for|while|if"
    r"|python3? -c|python3? -|python3? <<|node -e|node -p|ruby -e|perl|bash -c|sh -c|xxd|od|date|env|printenv|sleep|timeout|open|man|history|unzip|tar|du|df|lsof|netstat|ping|ssh|scp)\b"
)
_RUNNER = LazyPattern(
    r"^(?:mise (?:run |r )|make |just |task |npm (?:run |test|start)|pnpm (?!install|add|i\b|dlx|exec)|yarn (?!add|install|dlx)|bun (?:run|test)|deno task|poe |poetry run |uv run |hatch run |nox|tox|rake |bundle exec |\./gradlew |gradle |mvn |cargo |go (?:test|vet|generate|build)|rails |bin/|\./scripts?/|scripts?/|\./\w+\.sh|composer |mix |dotnet |swift |flutter |dart |pytest|python3? -m |npx |bunx |turbo |nx |invoke |inv |pre-commit |docker[ -]compose |terraform |kubectl |helm |ruff |mypy |eslint |tsc|vitest|jest|golangci-lint |ctest|cmake )"
)
_NARROWED = LazyPattern(
    r"(?:\s-(?:run|k|t|m|-filter|-grep|-testNamePattern|p)[ =]\S|::\w|\s-run\b|/tmp/|\$\(|<<|\s\S+\.(?:test|spec)\.\w+|\btests?/\S+\.\w+|\s--lf\b|\s-x\b.*\btests?/|_test\.\w+|\$\w+|\.\.\.\s*$)"
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One use of a tool. `failed` also where a shell hid it: tests that fail into a pager."""

    tool: str
    asked: str
    line: int
    answer: str
    answered: int  # the line of the answer; 0 while there is none
    failed: bool
    refused: bool
    aside: bool
    index: int  # of the step

    @property
    def shell(self) -> bool:
        return self.tool in SHELLS

    @property
    def writes(self) -> bool:
        return self.tool in WRITERS and not self.failed

    def signs(self) -> tuple[str, ...]:
        """How it failed; nothing while it did not."""
        return error_signs(self.answer) if self.failed and self.shell else ()


def tool_calls(steps: Sequence[TranscriptStep]) -> Iterator[ToolCall]:
    """Every use of a tool with what came of it, in the order in which they were asked for."""
    answers = {step.call: step for step in steps if step.role == Role.RESULT and step.call}
    for index, step in enumerate(steps):
        if step.role != Role.TOOL:
            continue
        answer = answers.get(step.call) if step.call else _next_answer(steps, index)
        told = answer.text if answer else ""
        refused = bool(answer and answer.failed and _REFUSED.search(told[:2_000]))
        hidden = step.tool in SHELLS and purpose(step.text) != "" and _SHOWS_FAILURE.search(told) is not None
        yield ToolCall(
            tool=step.tool,
            asked=step.text,
            line=step.line,
            answer=told,
            answered=answer.line if answer else 0,
            failed=bool(answer and not refused and (answer.failed or hidden)),
            refused=refused,
            aside=step.aside,
            index=index,
        )


def _next_answer(steps: Sequence[TranscriptStep], index: int) -> TranscriptStep | None:
    following = steps[index + 1 : index + 2]
    return following[0] if following and following[0].role == Role.RESULT else None


def commands(asked: str) -> list[str]:
    """The single commands of a line, without what only moves about, and without what only shortens their answer."""
    if "<<" in asked or len(asked) > 2_000:
        asked = asked.split("<<", 1)[0].split("\n", 1)[0]
    found: list[str] = []
    for part in _parts(asked):
        while (shorter := _TAIL.sub("", part).strip()) != part:
            part = shorter
        part = part.removeprefix("time ").strip()
        if part and not part.startswith("#") and not _MOVE.match(part):
            found.append(part)
    return found


def _parts(asked: str) -> list[str]:
    """Apart at `&&`, `;` and line breaks that stand in no quotes."""
    parts, quote, begin = [], "", 0
    for place, char in enumerate(asked):
        if quote:
            quote = "" if char == quote and asked[place - 1] != "\\" else quote
        elif char in "\"'" and asked[max(0, place - 1)] != "\\":
            quote = char
        elif char in ";\n" or asked.startswith("&&", place):
            parts.append(asked[begin:place].strip("& \t"))
            begin = place + 1
    parts.append(asked[begin:].strip("& \t"))
    return parts


def without_variables(command: str) -> str:
    """Without the variables set before it."""
    return _ENVIRONMENT.sub("", command).strip()


def command_variables(command: str) -> str:
    """The variables set before it, as they stand."""
    found = _ENVIRONMENT.match(command)
    return found[0].strip() if found else ""


def purpose(asked: str) -> str:
    """What a line of commands is for, by the last of them that has a purpose; empty: for looking, or unknown."""
    for command in reversed(commands(asked)):
        if found := purpose_of(command):
            return found
    return ""


def purpose_of(command: str) -> str:
    """What one command is for; empty when it only looks, or can't be told."""
    told = without_variables(command)
    if _LOOKING.match(told):
        return ""
    words = re.sub(r"([\"']).*?\1", "", told)[:120]
    words = re.sub(r"\S+/", "", words) if not _RUNNER.match(told) else words
    head = " ".join(words.split()[:5])
    return next((name for name, form in _PURPOSES if re.search(form, head)), "")


def is_whole(command: str) -> bool:
    """Whether it runs all of what it is for, not one test or one file, and says the same to everybody."""
    return (
        len(command) <= LONGEST_COMMAND
        and not _NARROWED.search(command)
        and "/Users/" not in command
        and "/home/" not in command
    )


def changing(asked: str) -> str:
    """The commands of a line that change something on the machine, as they stood; empty when they only look."""
    if "<<" in asked or len(asked) > LONGEST_COMMAND * 4:
        return ""
    parts = [without_variables(part) for part in _parts(asked) if part and not part.startswith("#")]
    found = [
        part
        for part in parts
        if _CHANGING.match(part) or _WRITING.search(part) or purpose_of(part) in _CHANGING_PURPOSES
    ]
    return " && ".join(found)[:LONGEST_COMMAND]


def by_runner(command: str) -> bool:
    """Whether a task runner or a build tool is called."""
    return _RUNNER.match(without_variables(command)) is not None


def command_key(command: str) -> str:
    """What two tries of the same have in common: the program and what it is told to do."""
    words = [word for word in without_variables(command).split() if not word.startswith("-")]
    return " ".join(
        words[:3]
        if words[:1]
        and words[0]
        in ("mise", "npm", "pnpm", "yarn", "bun", "uv", "poetry", "python", "python3", "docker", "npx")
        else words[:2]
    )


def base_name(path: str) -> str:
    """The last part of a path, of either system."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def deleted_files(steps: Sequence[TranscriptStep]) -> frozenset[str]:
    """Base names of files that were made and deleted again: what was said of them is past."""
    made: set[str] = set()
    gone: set[str] = set()
    for deed in tool_calls(steps):
        if deed.writes and deed.tool == "Write":
            made.add(base_name(deed.asked))
        elif deed.shell and not deed.failed and _REMOVING.match(deed.asked.strip()):
            words = {base_name(word.strip("'\"")) for word in deed.asked.split()}
            gone |= made & words
    return frozenset(gone)

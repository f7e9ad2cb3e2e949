"""Tool calls with their results, and what a command is for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mindhold.model.error_signs import error_signs
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.pattern import LazyPattern, any_case

SHELL_TOOLS = frozenset(("Bash", "PowerShell", "Shell", "bash", "shell"))
WRITING_TOOLS = frozenset(
    ("Edit", "MultiEdit", "Write", "NotebookEdit", "Update", "str_replace_based_edit_tool", "apply_patch")
)
LONGEST_COMMAND = 160

_ENVIRONMENT = LazyPattern(r"^(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\S*)\s+)+")
_OUTPUT_FILTER = LazyPattern(
    r"\s*(?:\d?>&?\d?\s*(?:/dev/null|&1|&2|\S+)|2>&1|&>\s*\S+|\|&?\s*(?:tail|head|grep|egrep|rg|less|cat|tee|wc|sort|sed|awk|cut|uniq|jq|xargs)\b[^|&;]*"
    r"|\|\|\s*(?:true|echo\b[^|&;]*)|;\s*echo\b[^;&|]*)\s*$"
)
_MOVING = LazyPattern(
    r"^(?:cd|pushd|popd|set|export|source|\.|sleep|echo|printf|time|true|clear|mkdir|touch|pwd|ls|cat|sudo -v)\b"
)
_REFUSAL = any_case(
    r"<tool_use_error>|doesn't want to proceed|user rejected|Request interrupted|has not been read yet|modified since read|permission to use|requires approval"
    r"|was blocked|Cancelled|\[Request interrupted|timed? ?out after \d+|InputValidationError|hook (?:error|blocked)"
)
# What the program answers for a person who declined a call, which is no failure.
_DECLINED = LazyPattern(
    r"\s*(?:The user doesn't want to|User rejected|\[Request interrupted|Interrupted by user)"
)
_FAILURE_OUTPUT = LazyPattern(
    r"^(?:FAIL\b|--- FAIL|FAILED |ERROR |error(?:\[\w+\])?: |E  +\w|.*\b\d+ (?:failed|failing)\b|.*\berror TS\d+|✗ |npm ERR!|Traceback |panic: |.*\btask failed"
    r"|Exit code [1-9])",
    re.MULTILINE,
)
# Purposes of commands, the more specific first.
_PURPOSES = {
    "integration tests": r"\b(?:test[:_-]?(?:integration|e2e|ci|all)|integration[:_-]?tests?|e2e|playwright test|cypress run|-tags[= ]integration)\b",
    "tests": r"\b(?:tests?|pytest|jest|vitest|mocha|rspec|phpunit|tox|nox|unittest|spec|ctest|nextest|testing)\b",
    "type check": r"\b(?:mypy|pyright|tsc|typecheck|type-check|check-types|types|cargo check|flow check|go vet|vet)\b",
    "linter": r"\b(?:lint\w*|ruff check|eslint|golangci-lint|clippy|flake8|pylint|rubocop|biome (?:check|lint)|shellcheck|swiftlint|stylelint)\b",
    "formatter": r"\b(?:fmt|format|gofmt|prettier|black|rustfmt|ruff format|isort|gofumpt|swiftformat)\b",
    "migrations": r"\b(?:migrate|migrations?|alembic|db:migrate|prisma (?:migrate|db push|generate)|knex migrate)\b",
    "deployment": r"\b(?:deploy|kubectl apply|terraform apply|helm (?:install|upgrade)|fly deploy|vercel|netlify deploy|serverless deploy|cdk deploy|release|publish|goreleaser)\b",
    "generated code": r"\b(?:generate|codegen|protoc|sqlc|go generate|gen)\b",
    "installation": r"\b(?:npm (?:ci|install|i)|pnpm (?:install|i|add)|yarn (?:install|add)|pip install|uv (?:sync|pip install|add)|poetry (?:install|add)|bundle install|go mod (?:tidy|download)|cargo (?:add|install)|brew install|apt(?:-get)? install|mise install|composer install|dotnet restore)\b",
    "build": r"\b(?:build|compile|make|cargo build|go build|gradlew? assemble|mvn package|webpack|vite build|tsup|bundle|xcodebuild|cmake|docker build|package|dist)\b",
    "development server": r"\b(?:dev|serve|start|runserver|uvicorn|flask run|rails s(?:erver)?|docker[ -]compose up|air|nodemon)\b",
}
# Programs whose subcommand takes another one.
_LAUNCHERS = ("mise", "npm", "pnpm", "yarn", "bun", "uv", "poetry", "python", "python3", "docker", "npx")
_CHANGING_PURPOSES = ("installation", "migrations", "generated code")
_CHANGING = LazyPattern(
    r"^(?:sudo )?(?:cp|mv|touch|mkdir|ln|chmod|chown|sed -i|patch|tee|rm|export|unset|createdb|dropdb|docker(?:[ -]compose)? (?:up|start|restart|pull|run|volume|network)"
    r"|systemctl (?:start|restart|enable)|service \S+ (?:start|restart)|brew (?:install|services)|git (?:checkout|restore|pull|submodule|lfs|config(?! (?:-\S+ )*-(?:-get\S*|-list|l)\b)|stash)"
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
    """One tool call with its result. `failed` is also set where a shell hid the failure, such as tests piped into a pager."""

    tool: str
    input: str
    line: int
    output: str
    output_line: int  # the line of the result; 0 while there is none
    failed: bool
    refused: bool
    aside: bool
    index: int  # of the step

    @property
    def shell(self) -> bool:
        return self.tool in SHELL_TOOLS

    @property
    def writes(self) -> bool:
        return self.tool in WRITING_TOOLS and not self.failed

    def signs(self) -> tuple[str, ...]:
        """Return how it failed; empty if it didn't."""
        return error_signs(self.output) if self.failed and self.shell else ()


def tool_calls(steps: Sequence[TranscriptStep]) -> Iterator[ToolCall]:
    """Yield every tool call with its result, in the order of the calls."""
    results = {step.call: step for step in steps if step.role == Role.RESULT and step.call}
    for index, step in enumerate(steps):
        if step.role != Role.TOOL:
            continue
        if step.call:
            result = results.get(step.call)
        else:
            result = next((each for each in steps[index + 1 : index + 2] if each.role == Role.RESULT), None)
        output = result.text if result else ""
        refused = _DECLINED.match(output) is not None or bool(
            result and result.failed and _REFUSAL.search(output[:2_000])
        )
        is_purposeful = step.tool in SHELL_TOOLS and any(map(purpose_of, commands(step.text)))
        hidden = is_purposeful and _FAILURE_OUTPUT.search(output) is not None
        yield ToolCall(
            tool=step.tool,
            input=step.text,
            line=step.line,
            output=output,
            output_line=result.line if result else 0,
            failed=bool(result and not refused and (result.failed or hidden)),
            refused=refused,
            aside=step.aside,
            index=index,
        )


def commands(line: str) -> list[str]:
    """Split a command line into commands, without those that only move about and without pipes that shorten the output."""
    if "<<" in line or len(line) > 2_000:
        line = line.split("<<", 1)[0].split("\n", 1)[0]
    result: list[str] = []
    for part in _split_line(line):
        while (shorter := _OUTPUT_FILTER.sub("", part).strip()) != part:
            part = shorter
        part = part.removeprefix("time ").strip()
        if part and not part.startswith("#") and not _MOVING.match(part):
            result.append(part)
    return result


def _split_line(line: str) -> list[str]:
    """Split at `&&`, `;` and line breaks outside quotes."""
    parts, quote, begin = [], "", 0
    for index, char in enumerate(line):
        if quote:
            quote = "" if char == quote and line[index - 1] != "\\" else quote
        elif char in "\"'" and line[max(0, index - 1)] != "\\":
            quote = char
        elif char in ";\n" or line.startswith("&&", index):
            parts.append(line[begin:index].strip("& \t"))
            begin = index + 1
    parts.append(line[begin:].strip("& \t"))
    return parts


def without_variables(command: str) -> str:
    """Remove the variables set before the command."""
    return _ENVIRONMENT.sub("", command).strip()


def command_variables(command: str) -> str:
    """Return the variables set before the command."""
    match = _ENVIRONMENT.match(command)
    return match[0].strip() if match else ""


def purpose_of(command: str) -> str:
    """Return the purpose of one command; empty when it only looks, or is unknown."""
    bare = without_variables(command)
    if _LOOKING.match(bare):
        return ""
    words = re.sub(r"([\"']).*?\1", "", bare)[:120]
    words = re.sub(r"\S+/", "", words) if not _RUNNER.match(bare) else words
    head = " ".join(word for word in words.split()[:5] if not word.startswith("-"))
    return next((name for name, form in _PURPOSES.items() if re.search(form, head)), "")


def runs_everything(command: str) -> bool:
    """Whether it runs everything, not one test or one file, and works on every machine."""
    return (
        len(command) <= LONGEST_COMMAND
        and not _NARROWED.search(command)
        and "--dry-run" not in command
        and "/Users/" not in command
        and "/home/" not in command
    )


def changing_commands(line: str) -> str:
    """Return the commands of a line that change the machine; empty when they only look."""
    if "<<" in line or len(line) > LONGEST_COMMAND * 4:
        return ""
    parts = [without_variables(part) for part in _split_line(line) if part and not part.startswith("#")]
    changes = [
        part
        for part in parts
        if _CHANGING.match(part) or _WRITING.search(part) or purpose_of(part) in _CHANGING_PURPOSES
    ]
    return " && ".join(changes)[:LONGEST_COMMAND]


def uses_runner(command: str) -> bool:
    """Whether it calls a task runner or a build tool."""
    return _RUNNER.match(without_variables(command)) is not None


def command_key(command: str) -> str:
    """Return what two attempts of the same command have in common: the program and its subcommand."""
    words = [word for word in without_variables(command).split() if not word.startswith("-")]
    return " ".join(words[:3] if words[:1] and words[0] in _LAUNCHERS else words[:2])


def base_name(path: str) -> str:
    """Return the last part of a path, of either system."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def deleted_files(steps: Sequence[TranscriptStep]) -> frozenset[str]:
    """Return the base names of files that were made and deleted again."""
    written: set[str] = set()
    deleted: set[str] = set()
    for call in tool_calls(steps):
        if call.writes and call.tool == "Write":
            written.add(base_name(call.input))
        elif call.shell and not call.failed and _REMOVING.match(call.input.strip()):
            words = {base_name(word.strip("'\"")) for word in call.input.split()}
            deleted |= written & words
    return frozenset(deleted)

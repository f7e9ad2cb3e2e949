"""`make map`: measures the code of a checkout, and the path of one memory from each interface to the store.

The counts over the source read it with `ast` and never import it. The path is measured in child processes (`call_path.py`)
that run the command, the MCP server and the HTTP server in a temporary home, without a model. Needs a POSIX system.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHORT = 60  # lines
# Words that end in -ing and name a thing, not an activity.
NOUNS = frozenset("briefing building embedding finding heading king meaning ranking ring setting sibling spelling "
                  "spring string testing thing timing warning".split())  # fmt: skip
METAPHORS = frozenset("aside beside bell book crew desk desks doings door doors drawer fence heir house houses housing kin "
                      "kinship ladder leaflet leaflets pulse rung said shelf told turns".split())  # fmt: skip
PHRASE = "brumvox ledger"  # its first word is looked for in SQL, the whole in values
CONTENT = "The brumvox ledger listens on port 6543."
WARM_UP = "The harbour office opens at nine."
QUESTION = "Which port does the brumvox ledger use?"
WRITES, READS = ("INSERT", "REPLACE"), ("SELECT", "WITH")
PATIENCE = 120.0  # seconds for a server to open or answer: the profiler makes it slow
SETTLE = 2.0  # seconds in which a server does what is left to do after an answer
CHILD = Path(__file__).with_name("call_path.py")

LEGEND = """\
modules: .py files under src, packages' __init__ included. One importer: imported by one other module, wherever in the file
(lazy and typing imports count; imports by a string don't); __init__ files are not counted as imported. Fan-out: how many
other modules of ours a module imports. Class names: public classes at a module's top level. Gerunds: a word of the name ends in
-ing and is not one of NOUNS in this tool. Metaphors: a word of the name is in METAPHORS.
Operation by name: a call of an async function of ours that returns Any, with the name of an operation (declared by
Operation("name") or @operation("name")) as a constant first or second argument.
Files per field: of src, in the last commit that added a field to the class Memory and removed none.
frames: our functions and coroutines (lambdas too, comprehensions not) on the stack when SQLite executes the first INSERT
that holds the text (recall: the first SELECT that holds a word of the question), from the first function of ours that click,
mcp or uvicorn calls, and across tasks and threads: from a task to who made it, from a thread to who handed it the work.
modules that run: functions of theirs are called after the app is open (shell: until the process ends; servers: in the task
of the second request, and in the tasks and threads that it starts; background work does not count). modules imported: in
sys.modules at the end.
shapes: dataclasses, pydantic models and NamedTuples of ours that were an argument, a local or a result of our functions and
hold the text in a field of their own: until that SQL statement, and until the answer."""


class MapError(Exception):
    """A measurement that failed; the message says which and why."""


# The source, by ast.


@dataclass(frozen=True, slots=True)
class Module:
    """One file of the package."""

    name: str
    path: Path
    lines: int
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """Whether it is an `__init__.py`."""
        return self.path.name == "__init__.py"

    @property
    def words(self) -> list[str]:
        """The words of its own name."""
        return self.name.rpartition(".")[2].strip("_").split("_")


def read_modules(source: Path, package: str) -> dict[str, Module]:
    """Every module of the package by its dotted name."""
    modules = {}
    for path in sorted((source / package).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        modules[name] = Module(name, path, len(text.splitlines()), ast.parse(text))
    if not modules:
        raise MapError(f"There is no package {package} in {source}.")
    return modules


def imports_of(module: Module, modules: Mapping[str, Module]) -> set[str]:
    """The other modules of ours that it imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                names.add(inner if inner in modules else base)
    return {name for name in names if name in modules and name != module.name}


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    up = node.level - module.is_package
    return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])


def single_importer(imports: Mapping[str, set[str]], modules: Mapping[str, Module]) -> list[str]:
    """Modules that exactly one other module imports; packages are left out."""
    importers = Counter(name for targets in imports.values() for name in targets)
    return sorted(name for name, count in importers.items() if count == 1 and not modules[name].is_package)


def repeated_classes(modules: Mapping[str, Module]) -> dict[str, list[str]]:
    """Public class names that several modules define at their top level, with these modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.name)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def gerunds(modules: Mapping[str, Module]) -> list[str]:
    """Modules with a gerund in their name."""
    return [
        module.name
        for module in modules.values()
        if any(word.endswith("ing") and word not in NOUNS for word in module.words)
    ]


def metaphors(modules: Mapping[str, Module]) -> list[str]:
    """Modules with a metaphor in their name."""
    return [module.name for module in modules.values() if not METAPHORS.isdisjoint(module.words)]


def operation_names(modules: Mapping[str, Module]) -> set[str]:
    """The catalogue: names that are declared by `operation("name", ...)`."""
    names: set[str] = set()
    for module in modules.values():
        for node in ast.walk(module.tree):
            declared: list[ast.expr] = []
            if isinstance(node, ast.Call) and _called(node) in ("Operation", "operation"):
                declared = [node]
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                declared = [one for one in node.decorator_list if isinstance(one, ast.Call)]
                declared = [one for one in declared if _called(one) == "operation"]
            for call in declared:
                names.update(_strings(call, positions=1))
    return names


def calls_by_name(modules: Mapping[str, Module]) -> list[str]:
    """Places (`module:line`) that call an operation by its name and get Any."""
    known = operation_names(modules)
    answer_any = {
        node.name
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.AsyncFunctionDef) and node.returns and ast.unparse(node.returns) == "Any"
    }
    return [
        f"{module.name}:{node.lineno}"
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and _called(node) in answer_any and known & _strings(node, positions=2)
    ]


def _called(call: ast.expr) -> str:
    if not isinstance(call, ast.Call):
        return ""
    function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _strings(call: ast.expr, *, positions: int) -> set[str]:
    assert isinstance(call, ast.Call)
    values = [*call.args[:positions], *(one.value for one in call.keywords if one.arg == "name")]
    return {one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def source_counts(modules: Mapping[str, Module]) -> dict[str, Any]:
    """Everything that is counted over the source."""
    imports = {name: imports_of(module, modules) for name, module in modules.items()}
    sizes = {name: module.lines for name, module in modules.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    widest = max(imports, key=lambda name: len(imports[name]))
    return {
        "modules": len(modules),
        "lines": sum(sizes.values()),
        "median_lines": statistics.median(sizes.values()),
        "largest": {"module": largest, "lines": sizes[largest]},
        "short": sorted(name for name, lines in sizes.items() if lines < SHORT),
        "one_importer": single_importer(imports, modules),
        "repeated_classes": repeated_classes(modules),
        "fan_out_median": statistics.median(len(targets) for targets in imports.values()),
        "fan_out_largest": {"module": widest, "modules": len(imports[widest])},
        "gerunds": gerunds(modules),
        "metaphors": metaphors(modules),
        "operations": len(operation_names(modules)),
        "calls_by_name": calls_by_name(modules),
    }


# The last field, by git.


def fields_of_class(text: str, name: str) -> list[str]:
    """The annotated fields of a class, or nothing if there is no such class."""
    with suppress(SyntaxError):
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return [
                    one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                ]
    return []


def last_field_added(root: Path, name: str = "Memory") -> dict[str, Any] | None:
    """The last commit that added a field to the class and removed none, found through moves of the class."""
    commit, place = "HEAD", _class_place(root, "HEAD", name)
    while place is not None:
        path, fields = place
        commit = _git(root, "log", "-1", "--format=%H", commit, "--", path).strip()
        parent = f"{commit}^"
        if not commit or not _git(root, "rev-parse", "--verify", "--quiet", parent):
            return None
        before = fields_of_class(_git(root, "show", f"{parent}:{path}"), name)
        earlier = (path, before) if before else _class_place(root, parent, name)
        if earlier is not None:
            added = [one for one in fields if one not in earlier[1]]
            if added and not set(earlier[1]) - set(fields):
                files = _git(root, "diff", "--name-only", "--no-renames", parent, commit).splitlines()
                return {
                    "commit": commit[:10],
                    "subject": _git(root, "log", "-1", "--format=%s", commit).strip(),
                    "fields": added,
                    "files": sum(one.startswith("src/") for one in files),
                    "other_files": sum(not one.startswith("src/") for one in files),
                }
        commit, place = parent, earlier
    return None


def _class_place(root: Path, commit: str, name: str) -> tuple[str, list[str]] | None:
    """The file of src that defines the class, with its fields; of several the one with most."""
    listed = _git(root, "grep", "-lE", rf"^class {name}\b", commit, "--", "src/*.py").splitlines()
    paths = [line.partition(":")[2] for line in listed]
    places = [(path, fields_of_class(_git(root, "show", f"{commit}:{path}"), name)) for path in paths]
    return max(places, key=lambda place: len(place[1]), default=None)


def _git(root: Path, *arguments: str) -> str:
    """What git prints; nothing if it fails."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


# The path of a memory, in child processes.


@dataclass(slots=True)
class Child:
    """A command under the recorder, and the pipe to it."""

    process: subprocess.Popen[str]
    requests: Any
    answers: Any
    errors: Path
    next_id: int = field(default=0)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Tell the recorder something. Raises MapError when the process is gone."""
        self.requests.write(json.dumps(request) + "\n")
        self.requests.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The recorder's next line."""
        line = self.answers.readline()
        if not line:
            raise MapError(f"The command ended early: {self.last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def rpc(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """One MCP request over stdio."""
        self.next_id += 1
        self._send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params or {}})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == self.next_id and "method" not in message:
                if "error" in message or message["result"].get("isError"):
                    raise MapError(f"{method} failed: {line.strip()[:500]}")
                return message
        raise MapError(f"{method} was not answered: {self.last_words()}")

    def notify(self, method: str) -> None:
        """One MCP notification."""
        self._send({"jsonrpc": "2.0", "method": method})

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        return self.errors.read_text(encoding="utf-8", errors="replace")[-1500:].strip() or "no message"

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()


@dataclass(frozen=True, slots=True)
class Laboratory:
    """A checkout, and a home folder for it that is thrown away."""

    root: Path
    package: str
    python: Path
    home: Path

    @contextmanager
    def start(self, *command: str, phrase: str = "", verbs: Sequence[str] = ()) -> Iterator[Child]:
        """Run a command under the recorder; it is ended with the block."""
        read_request, write_request = os.pipe()
        read_answer, write_answer = os.pipe()
        arguments = ["--package", self.package, "--source", str(self.root / "src")]
        arguments += [
            "--control",
            str(read_request),
            str(write_answer),
            "--phrase",
            phrase,
            "--verbs",
            *verbs,
        ]
        errors = self.home / "errors.txt"
        with errors.open("w", encoding="utf-8") as stderr:
            process = subprocess.Popen(
                [str(self.python), str(CHILD), *arguments, "--", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=self.environment(),
                cwd=self.home,
                pass_fds=(read_request, write_answer),
            )
        os.close(read_request)
        os.close(write_answer)
        try:
            with os.fdopen(write_request, "w") as requests, os.fdopen(read_answer) as answers:
                yield Child(process, requests, answers, errors)
        finally:
            process.terminate()
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

    def environment(self) -> dict[str, str]:
        """The caller's, without settings of the package and with a home of its own."""
        prefix = f"{self.package.upper()}_"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(prefix)}
        return kept | {
            "HOME": str(self.home),
            "PYTHONHASHSEED": "0",
            f"{prefix}HOME": str(self.home / "memories"),
            f"{prefix}EMBEDDING_PROVIDER": "hashing",
        }


def measure_shell(laboratory: Laboratory, verbs: Sequence[str], *command: str) -> dict[str, Any]:
    """One command, from its start to its end."""
    with laboratory.start(*command, phrase=PHRASE, verbs=verbs) as child:
        child.process.communicate(timeout=PATIENCE)
        report = child.answer()
        if child.process.returncode:
            raise MapError(f"{' '.join(command)} failed: {child.last_words()}")
        return report


def measure_remember(laboratory: Laboratory) -> dict[str, Any]:
    """`remember` in a home that has been used before."""
    measure_shell(laboratory, WRITES, "remember", WARM_UP)
    return measure_shell(laboratory, WRITES, "remember", CONTENT)


def measure_recall(laboratory: Laboratory) -> dict[str, Any]:
    """`recall` of what was remembered."""
    measure_shell(laboratory, WRITES, "remember", CONTENT)
    return measure_shell(laboratory, READS, "recall", QUESTION)


def measure_mcp(laboratory: Laboratory) -> dict[str, Any]:
    """The tool `store_memory` over stdio."""
    with laboratory.start("mcp", "--toolsets", "assistant") as child:
        about = {"name": "code-map", "version": "1"}
        child.rpc("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about})
        child.notify("notifications/initialized")

        def store(content: str) -> None:
            child.rpc("tools/call", {"name": "store_memory", "arguments": {"content": content}})

        return _second_of(child, store)


def measure_rest(laboratory: Laboratory) -> dict[str, Any]:
    """`POST /api/projects/{id}/memory/messages` on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with laboratory.start("serve", "--port", address.rpartition(":")[2]) as child:
        _await_server(child, f"{address}/health")
        _post(f"{address}/api/projects", {"name": "harbour"})

        def save(content: str) -> None:
            body = {"message_type": "user", "content": content}
            _post(f"{address}/api/projects/harbour/memory/messages", body)

        return _second_of(child, save)


def _second_of(child: Child, send: Callable[[str], None]) -> dict[str, Any]:
    """The second of two requests: the first one imports and opens what is left to import and open."""
    send(WARM_UP)
    time.sleep(SETTLE)
    child.ask({"do": "begin", "phrase": PHRASE, "verbs": WRITES})
    send(CONTENT)
    time.sleep(SETTLE)
    return child.ask({"do": "end"})


def _await_server(child: Child, address: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(address, timeout=10):
                return
        except (urllib.error.URLError, OSError) as error:
            if child.process.poll() is not None or time.monotonic() > deadline:
                raise MapError(f"The server did not open ({error}): {child.last_words()}") from error
            time.sleep(0.2)


def _post(address: str, body: Mapping[str, Any]) -> None:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE):
            pass
    except urllib.error.HTTPError as error:
        raise MapError(f"POST {address} failed: {error.read().decode(errors='replace')[:500]}") from error


CALLS: Mapping[str, Callable[[Laboratory], dict[str, Any]]] = {
    "remember (shell)": measure_remember,
    "recall (shell)": measure_recall,
    "store_memory (MCP)": measure_mcp,
    "POST messages (REST)": measure_rest,
}


def measure_paths(root: Path, package: str, python: Path) -> dict[str, dict[str, Any]]:
    """Every call of CALLS, each in a home of its own."""
    paths = {}
    for name, measure in CALLS.items():
        with tempfile.TemporaryDirectory(prefix="code-map-", ignore_cleanup_errors=True) as home:
            try:
                paths[name] = measure(Laboratory(root, package, python, Path(home)))
            except (MapError, OSError, subprocess.TimeoutExpired) as error:
                paths[name] = {"failed": str(error)}
    return paths


# The table.


def rows_of(measured: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A label and a value for every line of the table."""
    source, added = measured["source"], measured["last_field"]
    largest, widest = source["largest"], source["fan_out_largest"]
    rows = [
        ("modules", f"{source['modules']:,}"),
        ("lines", f"{source['lines']:,}"),
        ("lines of a module, median", f"{source['median_lines']:g}"),
        ("lines of a module, largest", f"{largest['lines']:,} ({_short(largest['module'])})"),
        (f"modules under {SHORT} lines", f"{len(source['short'])}"),
        ("modules with one importer", f"{len(source['one_importer'])}"),
        ("public class names defined twice or more", f"{len(source['repeated_classes'])}"),
        ("fan-out, median", f"{source['fan_out_median']:g}"),
        ("fan-out, largest", f"{widest['modules']} ({_short(widest['module'])})"),
        ("module names that are gerunds", f"{len(source['gerunds'])}"),
        ("module names that are metaphors", f"{len(source['metaphors'])}"),
        (
            "operations called by name, giving Any",
            f"{len(source['calls_by_name'])} (of {source['operations']} operations)",
        ),
        (
            "files of src for the last field of Memory",
            f"{added['files']} ({added['commit']}, {len(added['fields'])} fields)" if added else "-",
        ),
    ]
    for call, path in measured.get("paths", {}).items():
        failed = "failed" in path
        found = bool(path.get("chain"))
        rows += [
            (f"{call}: frames to the SQL", str(len(path["chain"])) if found else "-"),
            (f"{call}: modules that run", "-" if failed else str(len(path["modules"]))),
            (f"{call}: modules imported", "-" if failed else str(len(path["imported"]))),
            (
                f"{call}: shapes to the SQL / in all",
                f"{len(path['shapes_at_sql'])} / {len(path['shapes'])}" if found else "-",
            ),
        ]
    return rows


def _short(module: str) -> str:
    return module.partition(".")[2] or module


def print_table(measured: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
    """The table, with a column for an earlier measurement if there is one."""
    rows = rows_of(measured)
    width = max(len(label) for label, _ in rows) + 2
    if before is None:
        for label, value in rows:
            print(f"{label:<{width}}{value}")
        return
    earlier = dict(rows_of(before))
    second = max(len(value) for value in [*earlier.values(), "before"]) + 2
    print(f"{'':<{width}}{'before':<{second}}now")
    for label, value in rows:
        print(f"{label:<{width}}{earlier.get(label, '-'):<{second}}{value}")


def print_details(measured: Mapping[str, Any]) -> None:
    """The names behind the numbers."""
    source = measured["source"]
    print("\nPublic class names defined twice or more:")
    for name, places in source["repeated_classes"].items():
        print(f"  {name}: {', '.join(_short(place) for place in places)}")
    for label in ("gerunds", "metaphors", "one_importer", "calls_by_name"):
        names = " ".join(_short(one) for one in source[label])
        print(
            f"\n{label.replace('_', ' ').capitalize()}:\n{textwrap.indent(textwrap.fill(names, 116), '  ')}"
        )
    for call, path in measured.get("paths", {}).items():
        if "failed" in path:
            continue
        print(f"\n{call}, to `{path['statement']}`:")
        for one in path["chain"]:
            print(f"  {_short(one)}")
        print(f"  open after {path['opener']}; shapes: {', '.join(_short(one) for one in path['shapes'])}")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=LEGEND, formatter_class=argparse.RawTextHelpFormatter
    )
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--root", type=Path, default=here, help="the checkout to measure (this one)")
    parser.add_argument("--package", help="its package (the only folder in ROOT/src)")
    parser.add_argument("--python", type=Path, help="its Python (ROOT/.venv/bin/python, else this one)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write everything that was measured to a file"
    )
    parser.add_argument("--before", type=Path, metavar="FILE", help="a file of --json to print beside it")
    parser.add_argument("--no-paths", action="store_true", help="count the source only")
    parser.add_argument("--verbose", action="store_true", help="print the names behind the numbers")
    given = parser.parse_args()
    root = given.root.resolve()
    try:
        package = given.package or _only_package(root / "src")
        modules = read_modules(root / "src", package)
    except MapError as error:
        print(error, file=sys.stderr)
        return 2
    measured: dict[str, Any] = {
        "package": package,
        "commit": _git(root, "rev-parse", "--short", "HEAD").strip(),
        "source": source_counts(modules),
        "last_field": last_field_added(root),
    }
    if not given.no_paths:
        own = root / ".venv" / "bin" / "python"
        python = given.python or (own if own.exists() else Path(sys.executable))
        measured["paths"] = measure_paths(root, package, python)
    if given.json:
        given.json.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    before = json.loads(given.before.read_text(encoding="utf-8")) if given.before else None
    print(f"{package} at {measured['commit'] or root}\n")
    print_table(measured, before)
    if given.verbose:
        print_details(measured)
    print(f"\n{LEGEND}")
    failures = {call: path["failed"] for call, path in measured.get("paths", {}).items() if "failed" in path}
    for call, reason in failures.items():
        print(f"{call} was not measured: {reason}", file=sys.stderr)
    return 1 if failures else 0


def _only_package(source: Path) -> str:
    names = [path.parent.name for path in source.glob("*/__init__.py")]
    if len(names) != 1 or not re.fullmatch(r"\w+", names[0]):
        raise MapError(f"{source} holds {len(names)} packages: name one with --package.")
    return names[0]


if __name__ == "__main__":
    sys.exit(main())

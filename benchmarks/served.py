"""A filled store, and Mindhold's servers on it as their clients start them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import texts
from benchmarks.environment import CACHE, HERE, surroundings
from benchmarks.peers.door import OWN_HOME, PRECISION, command_line, door_options, open_embedder
from benchmarks.peers.front_door import FrontDoor
from benchmarks.vectors import stored_vectors

MODEL = "all-MiniLM-L6-v2"
WAIT = 60.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/mcp")


@dataclass(frozen=True, slots=True)
class Filled:
    """A store on disk, and what a server needs to be told to open it."""

    folder: Path
    memories: int
    model: str
    variables: dict[str, str]

    def copied(self, name: str) -> Filled:
        """The same to write to, made anew."""
        folder = CACHE / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        path = {"MINDHOLD_STORE_PATH": str(folder / "mindhold.db")}
        return Filled(folder, self.memories, self.model, self.variables | path)


def filled(count: int, *, data: Path | None = None) -> Filled:
    """So many memories with vectors of the local model; without it, by hashing. Made once and kept."""
    options = door_options(MODEL)
    pulled = (OWN_HOME / "models" / MODEL / f"model.{PRECISION}.onnx").is_file()
    folder = (
        CACHE / f"served-{count}-{options['name'].replace('/', '-') if pulled else 'hashing'}-{texts.VERSION}"
    )
    _, variables = command_line(folder, options)
    done = folder / "done"
    if not pulled:
        variables = {**variables, "MINDHOLD_EMBEDDING_PROVIDER": "hashing"}
    if not done.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        rows = texts.memories(count, data=data)
        print(f"filling {count:,} memories", flush=True)
        if pulled:
            _fill(folder, rows, options)
        else:
            _import(folder, rows, variables)
        done.touch()
    model = str(options["name"]) if pulled else "hashing"
    return Filled(folder, count, model, variables)


def place_model(home: Path) -> None:
    """The benchmark's own model in a home that has none."""
    shutil.copytree(OWN_HOME / "models" / MODEL, home / "models" / MODEL, copy_function=os.link)


def data_folder() -> Path:
    """Where real sentences to mix in may lie, as for the speed benchmark."""
    given = os.environ.get("MINDHOLD_BENCH_DATA")
    return Path(given) if given else HERE.parent.parent / "shared" / "data"


def _fill(folder: Path, rows: list[str], options: dict[str, Any]) -> None:
    vectors = stored_vectors(CACHE, rows, model=str(options["name"]), embed=open_embedder(options).texts)
    door = FrontDoor(folder, {**options, "plain": True})
    door.load(rows, str(vectors), 0)
    door.close()


def _import(folder: Path, rows: list[str], variables: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    subprocess.run(
        [*program(), "remember", "--batch", "--no-jobs"],
        input="\n".join(map(json.dumps, rows)).encode(),
        env=surroundings() | variables,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def program() -> list[str]:
    """`mindhold`, by the interpreter that this runs in."""
    return [sys.executable, "-m", "mindhold"]


def ask(process: subprocess.Popen[bytes], number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """One request to a server on its standard input, and its result."""
    assert process.stdin is not None
    assert process.stdout is not None
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    for line in process.stdout:
        answer = json.loads(line)
        if answer.get("id") == number:
            if "result" not in answer:
                raise SystemExit(f"{method}: {answer}")
            found: dict[str, Any] = answer["result"]
            return found
    raise SystemExit(f"the server went before it answered {method}")


@contextmanager
def serving(store: Filled, **settings: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`mindhold serve` on the store: its process and its port."""
    process = subprocess.Popen(
        [*program(), "serve", "--port", "0"],
        env=surroundings() | store.variables | settings,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        yield process, _port(process)
    finally:
        process.terminate()
        process.wait(WAIT)


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if found := _ADDRESS.search(line):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return int(found[1])
    raise SystemExit(f"mindhold serve did not start: {''.join(said)}")

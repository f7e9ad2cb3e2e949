"""Stands in for `claude` and `gemini`: notes how it was called, and does what `script.json` beside it says.

Run by this Python; never imported.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

here = Path(__file__).parent
script = json.loads((here / "script.json").read_text(encoding="utf-8"))
prompt = sys.stdin.buffer.read().decode("utf-8") if not script.get("deaf") else ""
folder = Path.cwd()
called = {
    "arguments": sys.argv[1:],
    "prompt": prompt,
    "folder": str(folder),
    "environ": dict(os.environ),
    "files": {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    },
}
log = here / "calls.jsonl"
with log.open("a", encoding="utf-8") as file:
    file.write(json.dumps(called) + "\n")
for flag in script.get("unknown", []):
    if flag in sys.argv:
        sys.stderr.write(f"error: unknown option '{flag}'\n")
        sys.exit(1)
if script.get("hang") or script.get("leaves"):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    if "tell" in script:
        with socket.create_connection(("127.0.0.1", script["tell"])) as told:
            told.sendall(str(child.pid).encode())
    if not script.get("leaves"):
        time.sleep(600)
sys.stdout.write(script.get("out", "").replace("PROMPT", json.dumps(prompt)[1:-1]))
if script.get("endless"):
    try:
        while True:
            sys.stdout.write("x" * 65536)
    except OSError:
        os._exit(1)
sys.stderr.write(script.get("err", ""))
sys.exit(script.get("status", 0))

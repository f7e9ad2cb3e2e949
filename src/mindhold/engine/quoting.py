"""What is given to a language model as data, and what it answers: remembered text can't end its quotation, and an answer
is the JSON that was asked for or nothing."""

from __future__ import annotations

import json
import re
from typing import Any

_FENCED = re.compile(r"\A```[a-z]*[ \t]*\r?\n(.*?)\r?\n?```\Z", re.DOTALL | re.IGNORECASE)


def quoted(value: Any) -> str:
    """One line of JSON, which nothing inside it can end, and which holds no tag."""
    line = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
    # Some readers take these for ends of a line, and JSON lets them stand as they are.
    for end in ("\u0085", "\u2028", "\u2029"):
        line = line.replace(end, f"\\u{ord(end):04x}")
    return line


def answered(answer: str) -> Any:
    """The JSON that the whole answer is, with or without a code fence around it; None when it is anything else."""
    text = answer.strip()
    if fenced := _FENCED.match(text):  # many models can't do without
        text = fenced[1]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

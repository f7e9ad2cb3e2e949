"""Writes src/mindhold/operation_index.py anew: the table of which module declares which operation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "mindhold"
INDEX = SOURCE / "operation_index.py"
_TABLE = re.compile(r"(MODULES: Mapping\[str, str\] = \{\n).*?(\n\}\n)", re.DOTALL)


def declared_operations() -> dict[str, str]:
    """Every operation's name and the module that declares it, sorted by name."""
    operations: dict[str, str] = {}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if " = operation(" not in text:
            continue
        for statement in ast.parse(text).body:
            match statement:
                case ast.Assign(
                    targets=[ast.Name(id=constant)],
                    value=ast.Call(func=ast.Name(id="operation"), args=[ast.Constant(value=str(name)), *_]),
                ):
                    if constant != name.upper():
                        raise ValueError(
                            f"{path}: the operation {name!r} must be the constant {name.upper()}"
                        )
                    operations[name] = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    return dict(sorted(operations.items()))


def index_text() -> str:
    """The module as it should be."""
    rows = "\n".join(f'    "{name}": "{module}",' for name, module in declared_operations().items())
    return _TABLE.sub(lambda match: match[1] + rows + match[2], INDEX.read_text(encoding="utf-8"))


if __name__ == "__main__":
    INDEX.write_text(index_text(), encoding="utf-8")

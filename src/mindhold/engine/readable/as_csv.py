"""A table, an item a row: as a spreadsheet opens it, and without anything that one would calculate."""

from __future__ import annotations

import csv
import io

from mindhold.engine.readable.parts import Head, Item, Part

COLUMNS = (
    "id scope section conversation_id speaker timestamp text tags topic kind source status importance created privacy"
).split()
PRIVATE = "personal data"  # in every row: a first line of another shape would break whoever reads the table
_FORMULA = frozenset("=+-@＝＋－＠")
_BREAKING = frozenset("\t\r\n\x0b\x0c")


class CsvForm:
    """Rows by RFC 4180, UTF-8."""

    ending = ".csv"

    def written(self, part: Part) -> str:
        """The text for this part."""
        match part:
            case Head():
                return row(COLUMNS)
            case Item():
                return row(_cells(part))
            case _:
                return ""


def row(cells: list[str]) -> str:
    """One line, quoted where it must be."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow([harmless_cell(cell) for cell in cells])
    return line.getvalue()


def harmless_cell(text: str) -> str:
    """With an apostrophe before what a spreadsheet would take for a formula."""
    begun = text.lstrip()[:1]
    return f"'{text}" if begun in _FORMULA or text[:1] in _BREAKING else text


def _cells(item: Item) -> list[str]:
    return [
        item.id,
        item.scope,
        item.section,
        item.conversation or "",
        item.speaker,
        item.occurred.isoformat(),
        item.text,
        "; ".join(item.tags),
        item.topic,
        item.kind,
        item.source,
        item.status,
        f"{item.importance:.4g}",
        item.created.isoformat(),
        PRIVATE,
    ]

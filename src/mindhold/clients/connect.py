"""Which clients there are, where each has its servers, and in which form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindhold.clients.files import Change
from mindhold.clients.json_text import Path as Keys
from mindhold.clients.json_text import render
from mindhold.clients.mcp_entry import NAME, json_change, server_entry, toml_change
from mindhold.clients.program import Program
from mindhold.clients.toml_text import toml_entry
from mindhold.model.errors import InvalidInput
from mindhold.model.places import Places

TOML = ".toml"


@dataclass(frozen=True, slots=True)
class Client:
    """`project` is its file in a project's folder, if it has one; `typed` entries say that they are stdio."""

    name: str
    title: str
    section: str
    project: str | None
    typed: bool = True
    comments: bool = False
    after: str = "Start it anew, so that it reads the file."

    def file(self, places: Places, folder: Path | None) -> Path:
        """Of the person, or of the project. Raises InvalidInput."""
        if folder is None:
            return _of_person(self.name, places)
        if self.project is None:
            raise InvalidInput(
                f"{self.title} has no file in a project's folder.", advice="Leave out --project."
            )
        return folder / self.project

    def keys(self) -> tuple[str, str]:
        return self.section, NAME

    def entry(self, program: Program, *, toolsets: str | None, home: str | None) -> dict[str, Any]:
        """What starts the server."""
        return server_entry(program, toolsets=toolsets, home=home, typed=self.typed)

    def change(self, path: Path, entry: dict[str, Any]) -> Change:
        """The file with the entry in it. Raises InvalidInput, Conflict."""
        if path.suffix == TOML:
            return toml_change(path, self.keys(), entry)
        return json_change(path, self.keys(), entry, comments=self.comments)

    def shown(self, path: Path, entry: dict[str, Any]) -> str:
        """The entry as it would stand in a file that has nothing else."""
        if path.suffix == TOML:
            return toml_entry(self.keys(), entry)
        return render({self.section: {NAME: entry}}) + "\n"


CLIENTS = {
    one.name: one
    for one in (
        Client("claude", "Claude Code", "mcpServers", ".mcp.json"),
        Client("desktop", "Claude Desktop", "mcpServers", None, typed=False),
        Client("cursor", "Cursor", "mcpServers", ".cursor/mcp.json"),
        Client("vscode", "VS Code", "servers", ".vscode/mcp.json", comments=True),
        Client("codex", "Codex", "mcp_servers", ".codex/config.toml", typed=False),
        Client("gemini", "Gemini CLI", "mcpServers", ".gemini/settings.json", typed=False, comments=True),
    )
}


def claude_local_keys(folder: Path, identity: str) -> Keys:
    """Where Claude Code keeps a server that is one person's in one project: by the repository's folder, worktrees too."""
    git = Path(identity)
    root = git.parent if git.name == ".git" else folder.resolve()
    return "projects", root.as_posix(), "mcpServers", NAME


def _of_person(name: str, places: Places) -> Path:
    return {
        "claude": places.claude_json,
        "desktop": places.programs / "Claude" / "claude_desktop_config.json",
        "cursor": places.user / ".cursor" / "mcp.json",
        "vscode": places.programs / "Code" / "User" / "mcp.json",
        "codex": places.codex / "config.toml",
        "gemini": places.user / ".gemini" / "settings.json",
    }[name]

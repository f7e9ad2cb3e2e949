"""Resources for projects and scopes, and for a project's memory: messages, search, statistics, summary, import and export."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from mindhold.contracts.rest.resource import FieldProblem, Resource

IN_PROJECT: Mapping[str, str] = {"project_id": "project"}
IN_SESSION: Mapping[str, str] = {**IN_PROJECT, "session_id": "conversation"}
NAMED = {"project_id": "name"}
_project = partial(Resource, "Projects")
_scopes = partial(Resource, "Scopes")
_scope = partial(Resource, "Scopes", codes=("SCOPE_NOT_FOUND",))
_message = partial(Resource, "Project memory", names=IN_SESSION)
_summary = partial(Resource, "Project summary", names=IN_PROJECT)
_bulk = partial(Resource, "In bulk")

RESOURCES = (
    _project(
        "POST /api/projects",
        "create_project",
        "Make a project, in a store of your choice.",
        status=201,
        location="/api/projects/{id}",
        codes=("NOT_FOUND", "SETTINGS_ERROR"),
    ).described(
        "For the owner. `storage_mode` is `local`, `postgres` or `mongodb`, the server's own unless one is named, and stays "
        "until the project is migrated; `path` is its folder on the server's machine. A project of that name that others "
        "have in the same database already is joined."
    ),
    _project("GET /api/projects", "list_projects", "Every project, and where its memory is kept.").described(
        "Those that you may see, by name. Folders are told to the owner alone."
    ),
    _project(
        "GET /api/projects/{project_id}", "show_project", "One project, with its settings.", names=NAMED
    ),
    _project(
        "PATCH /api/projects/{project_id}",
        "change_project",
        "Change a project's settings; what isn't given stays.",
        names=NAMED,
    ).described(
        "For the owner. `path` says where its folder is now, an empty one that it has none; `active` false puts it away: it "
        "takes no messages, and keeps its memories."
    ),
    _project(
        "DELETE /api/projects/{project_id}",
        "delete_project",
        "Export a project's memories, then remove it and them for good.",
        names=NAMED,
        codes=("SETTINGS_ERROR",),
    ).described(
        "For the owner. `confirm` is the project's name once more. The export is written first, always, and `export` says "
        "where; then the project goes from the store that it lives in, with its hidden copies. One that is being migrated, or "
        "that others use in the same database, is refused."
    ),
    _project(
        "POST /api/projects/{project_id}/migrate",
        "migrate_project",
        "Move a project to another store, verified.",
        names=IN_PROJECT,
        codes=("SETTINGS_ERROR",),
    ).described(
        "For the owner. Others may read it and write to it meanwhile; one that was broken off goes on where it was. What it "
        "leaves behind is hidden, and kept until `drop_source`."
    ),
    _scopes("POST /api/scopes", "create_scope", "Make a scope.", status=201, location="/api/scopes/{name}"),
    _scopes("GET /api/scopes", "list_scopes", "Every scope with its counts."),
    _scope("GET /api/scopes/{name}", "show_scope", "One scope, closely."),
    _scope(
        "PATCH /api/scopes/{name}",
        "change_scope",
        "Describe, nest or switch a scope; what isn't given stays.",
    ),
    _scope(
        "DELETE /api/scopes/{name}",
        "delete_scope",
        "Export a scope's memories, then remove it and them for good.",
        hidden=frozenset({"export"}),  # a path on the server's disk
    ).described("For the owner. The export lies in the home's export folder; `export` says where."),
    _scope(
        "POST /api/scopes/{name}/rename",
        "rename_scope",
        "Give a scope another name; its memories follow.",
        differing_answer={"name": "office", "sees": ["office", "Global"]},
    ).described("For the owner. Keys that are bound to the old name follow too."),
    _scope(
        "POST /api/scopes/{name}/retire",
        "retire_scope",
        "Back a scope up and switch it off: only who names it finds it. With `delete` it goes for good.",
    ).described("For the owner. The backup lies in the server's folder of backups."),
    _scope("POST /api/scopes/{name}/revive", "revive_scope", "Switch a retired scope on again.").described(
        "For the owner."
    ),
)

MEMORY = "/api/projects/{project_id}/memory"
MESSAGES = f"{MEMORY}/messages"
WRONG: Mapping[str, FieldProblem] = {
    "message_type": FieldProblem(
        "INVALID_MESSAGE_TYPE", "Invalid message type. Must be one of: user, assistant, system"
    ),
    "content": FieldProblem("EMPTY_CONTENT", "The content must be a text that is not empty."),
}
WHOLE = (
    "Messages come whole, however long they are; where those over 4,000 characters have 4,000,000 together, the first "
    "part of the others comes, and `truncated` says so."
)


MESSAGE_RESOURCES = (
    _message(
        f"POST {MESSAGES}",
        "save_message",
        "Save a message.",
        fixed={"create_project": False},
        status=201,
        location="/api/projects/{project}/memory/messages/{message_id}",
        wrong=WRONG,
    ).described(
        "It is saved even where its meaning can't be worked out at once: then `indexed` is false, and a job catches up. "
        "`session_id` names its session, a text; `timestamp` says when it was said, as ISO 8601. Both may stand in `metadata` "
        "instead; where they stand twice, these hold. `redacted` has the kinds of secrets and personal data that were replaced."
    ),
    _message(
        f"GET {MESSAGES}", "list_messages", "All messages, page by page.", fixed={"whole": True}
    ).described(WHOLE),
    _message(
        f"GET {MESSAGES}/recent",
        "recent_messages",
        "The newest messages, oldest of them first.",
        fixed={"whole": True},
    ).described(WHOLE),
    _message(f"GET {MESSAGES}/{{message_id}}", "show_message", "One message, whole however long it is."),
    _message(
        f"DELETE {MESSAGES}",
        "delete_messages",
        "Delete messages for good.",
        names={**IN_SESSION, "before_date": "before"},
        codes=("NO_CRITERIA", "SESSION_NOT_FOUND", "TASK_NOT_FOUND"),
    ).described(
        "By message, session, task or date; of several, all must hold. Nothing is left of them: neither their parts, "
        "links and vectors, nor what was made of them."
    ),
    _message(
        f"POST {MEMORY}/search",
        "search_messages",
        "Find what a project remembers.",
        fixed={"whole": True, "summary": False},
    ).described(
        "Messages and other memories, by words and meaning, the most relevant first. Each comes once: of a long message "
        "`content` is what answers best, `truncated` is true, and its `id` gives it whole. Another memory has the "
        "`message_type` system, and its own `kind`. `similarity` is the cosine of the vectors; where none was compared, "
        "it is the score that results are ordered by."
    ),
    _message(
        f"GET {MEMORY}/context", "project_context", "All that a new conversation should know."
    ).described("The summary, the newest messages and the most relevant ones, within a budget of tokens."),
    _message(
        f"GET {MEMORY}/stats", "project_stats", "How many messages there are, and how their index is."
    ).described(
        "`chromadb_collection` and `chromadb_location` name the index of vectors and its file, for projects that live in "
        "a local file; `collection_name` and `vector_index_name` are of those on a server."
    ),
)

SUMMARY = f"{MEMORY}/summary"
VERSIONS = f"{SUMMARY}/versions"

SUMMARY_RESOURCES = (
    _summary(f"GET {SUMMARY}", "project_summary", "What is known about a project.", versioned=True).described(
        "Version 0 and empty while nobody wrote one."
    ),
    _summary(
        f"POST {SUMMARY}",
        "update_summary",
        "Work new insights into the summary.",
        fixed={"create_project": False},
        versioned=True,
    ).described(
        "What it says already is passed over, what has changed is replaced, and it never grows beyond its bounds: what matters "
        "least is condensed first, and is still in the versions before. With `last_summarized_message_id` the messages that were "
        "saved since the last one that it knows of are read too, up to that one; without it none are. An id of no message that "
        "can be read here, or of one before the last, leaves the mark where it is, and `notice` says so. What was taken from "
        "messages stays in the summary when they are deleted."
    ),
    _summary(
        f"POST {SUMMARY}/intelligent-update",
        "replace_summary",
        "Write the summary anew.",
        fixed={"create_project": False},
        versioned=True,
    ).described(
        "All of it is replaced, and the version before is kept. It is found by its meaning as all else is."
    ),
    _summary(f"GET {VERSIONS}", "summary_versions", "Every version of the summary, the latest first."),
    _summary(
        f"GET {VERSIONS}/{{version}}",
        "summary_version",
        "What one version of the summary said.",
        codes=("VERSION_NOT_FOUND",),
    ),
    _summary(
        f"GET {SUMMARY}/diff",
        "summary_diff",
        "What differs between two versions of the summary.",
        names={**IN_PROJECT, "from": "from_version", "to": "to_version"},
        codes=("VERSION_NOT_FOUND",),
    ).described(
        "The latest and the one before unless told otherwise. Version 0 is the empty one before the first."
    ),
    _summary(
        f"POST {VERSIONS}/{{version}}/restore",
        "restore_summary",
        "Make a new version that says what an old one said.",
        versioned=True,
        codes=("VERSION_NOT_FOUND",),
        differing_answer={
            "summary": "# Summary of proj_123\n\nThis is a task management system.\n\n## Key decisions\n- Chose MongoDB Atlas for scalability\n- Implemented JWT authentication"
        },
    ).described(
        "None is lost by it: those in between stay what they are. It knows of the messages that the old one knew of: the next "
        "update that names a message reads again those that were saved since."
    ),
)

BULK_RESOURCES = (
    _bulk(
        f"POST {MESSAGES}/batch",
        "save_messages",
        "Save up to 1,000 messages.",
        names=IN_PROJECT,
        fixed={"create_project": False},
        status=201,
    ).described(
        "One that can't be stored is told by its number, and the others are stored. With an `Idempotency-Key` each is "
        "stored once under that key and its number: whatever broke off can be sent again."
    ),
    _bulk(
        f"POST {MESSAGES}/import",
        "save_messages",
        "Import any number of messages.",
        id="import_messages",
        names=IN_PROJECT,
        query=("embed",),
        fixed={"create_project": False},
        hidden=frozenset({"first"}),
        wrong=WRONG,
        differing_answer={"imported": 100000, "indexed": 100000, "message_ids": [], "seconds": 214.6},
        stream="import",
    ).described(
        "The body is `application/x-ndjson`: a message a line, streamed, and stored while it arrives. A line that can't be "
        "stored is told by its number (the first 100 of them), and the rest goes on. With an `Idempotency-Key` an import "
        "that broke off can be sent again: what is there is counted as `repeated`, what says something else than it did is "
        "an error of that line, and what was deleted is stored again. When the server stops, what came is stored, and the "
        "answer is 503 with the counts. `embed=false` leaves it to a job to "
        "make the messages findable by meaning. With `Accept: application/x-ndjson` the counts are told about every "
        "second, and the last line is the answer."
    ),
    _bulk(
        "GET /api/projects/{project_id}/export",
        "export",
        "A project's memories as lines of JSON.",
        id="export_project",
        names={"project_id": "scope"},
        hidden=frozenset({"path", "memory_mcp", "format"}),
        own_example={"project_id": "proj_123"},
        descriptions={"project_id": "The project's id, which is its name."},
        stream="export",
    ).described("As `mindhold export` writes them, and `mindhold import` reads them again. For the owner."),
    _bulk(
        "GET /api/export",
        "export",
        "All memories as lines of JSON.",
        hidden=frozenset({"path", "memory_mcp", "format"}),
        stream="export",
    ).described("As `mindhold export` writes them, and `mindhold import` reads them again. For the owner."),
)

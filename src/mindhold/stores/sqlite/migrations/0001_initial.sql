-- Times are microseconds since 1970 in UTC. JSON columns hold what no query looks into.

-- 'revision' grows with every change of a record, so that indexes in memory read only what is new.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO counter (name, value) VALUES ('revision', 0);

CREATE TABLE scope (
    row INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL DEFAULT '',
    kind TEXT NOT NULL DEFAULT 'general',
    parent INTEGER REFERENCES scope (row),
    keywords TEXT NOT NULL DEFAULT '[]',
    active INTEGER NOT NULL DEFAULT 1,
    created INTEGER NOT NULL
) STRICT;

CREATE INDEX scope_parent ON scope (parent) WHERE parent IS NOT NULL;

INSERT INTO scope (row, name, created) VALUES (1, 'Global', 0);

CREATE TABLE memory (
    row INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice: a row in memory elsewhere can't mean another record
    id TEXT NOT NULL UNIQUE,
    scope INTEGER NOT NULL REFERENCES scope (row),
    agent TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    previous_status TEXT,
    topic TEXT NOT NULL,
    topic_folded TEXT NOT NULL,
    content TEXT NOT NULL,
    importance REAL NOT NULL,
    confidence REAL NOT NULL,
    utility REAL NOT NULL,
    trust REAL NOT NULL,
    tier TEXT NOT NULL,
    anchor INTEGER NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    occurred INTEGER NOT NULL,
    last_used INTEGER,
    uses INTEGER NOT NULL,
    supersedes TEXT,
    merged_from TEXT NOT NULL,
    dialect TEXT NOT NULL,
    source TEXT NOT NULL,
    conversation TEXT,
    position INTEGER,
    file TEXT,
    line INTEGER,
    tokens INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    gist TEXT NOT NULL,
    keywords TEXT NOT NULL,
    metadata TEXT NOT NULL,
    lexemes TEXT NOT NULL,
    length INTEGER NOT NULL,
    embedded_by TEXT,
    revision INTEGER NOT NULL
) STRICT;

CREATE INDEX memory_revision ON memory (revision);
-- These carry what the usual filters ask, so that listing and counting stay inside the index.
CREATE INDEX memory_time ON memory (occurred, id, scope, status, agent);
CREATE INDEX memory_importance ON memory (importance, id, scope, status, agent);
CREATE INDEX memory_scope ON memory (scope, status, occurred, agent);
CREATE INDEX memory_agent ON memory (agent);
CREATE INDEX memory_kind ON memory (kind, status, occurred, id);
CREATE UNIQUE INDEX memory_hash ON memory (content_hash, scope, agent) WHERE status IN ('active', 'quarantined');
CREATE INDEX memory_gist ON memory (gist) WHERE gist <> '';
CREATE INDEX memory_conversation ON memory (conversation, position) WHERE conversation IS NOT NULL;
CREATE INDEX memory_topic ON memory (topic_folded) WHERE topic_folded <> '';
CREATE INDEX memory_supersedes ON memory (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX memory_referring ON memory (row) WHERE merged_from <> '[]' OR metadata <> '{}';
CREATE INDEX memory_embedded ON memory (embedded_by, status);

CREATE TABLE tag (
    memory INTEGER NOT NULL REFERENCES memory (row) ON DELETE CASCADE,
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (memory, folded)
) STRICT, WITHOUT ROWID;

CREATE INDEX tag_folded ON tag (folded);

CREATE TABLE vector (
    row INTEGER PRIMARY KEY REFERENCES memory (row) ON DELETE CASCADE,
    model TEXT NOT NULL,
    exact BLOB NOT NULL
) STRICT;

-- Apart from the exact vectors, so that loading the index reads a third of the bytes.
CREATE TABLE vector_code (
    row INTEGER PRIMARY KEY REFERENCES memory (row) ON DELETE CASCADE,
    model TEXT NOT NULL,
    code BLOB NOT NULL
) STRICT;

-- Rows that were erased: other processes drop them from their indexes in memory.
CREATE TABLE tombstone (
    row INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT;

CREATE INDEX tombstone_revision ON tombstone (revision);

CREATE VIRTUAL TABLE lexeme USING fts5 (
    lexemes,
    content = 'memory',
    content_rowid = 'row',
    tokenize = 'unicode61 remove_diacritics 0',
    detail = none,
    columnsize = 0
);

CREATE TRIGGER memory_inserted AFTER INSERT ON memory BEGIN
    INSERT INTO lexeme (rowid, lexemes) VALUES (new.row, new.lexemes);
END;

CREATE TRIGGER memory_reworded AFTER UPDATE OF lexemes ON memory WHEN old.lexemes <> new.lexemes BEGIN
    INSERT INTO lexeme (lexeme, rowid, lexemes) VALUES ('delete', old.row, old.lexemes);
    INSERT INTO lexeme (rowid, lexemes) VALUES (new.row, new.lexemes);
END;

CREATE TRIGGER memory_deleted AFTER DELETE ON memory BEGIN
    INSERT INTO lexeme (lexeme, rowid, lexemes) VALUES ('delete', old.row, old.lexemes);
END;

CREATE TABLE link (
    origin INTEGER NOT NULL REFERENCES memory (row) ON DELETE CASCADE,
    target INTEGER NOT NULL REFERENCES memory (row) ON DELETE CASCADE,
    relation TEXT NOT NULL,
    created INTEGER NOT NULL,
    weight REAL NOT NULL,
    automatic INTEGER NOT NULL,
    PRIMARY KEY (origin, target, relation)
) STRICT, WITHOUT ROWID;

CREATE INDEX link_target ON link (target);

CREATE TABLE version (
    memory INTEGER NOT NULL REFERENCES memory (row) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    content TEXT NOT NULL,
    kind TEXT NOT NULL,
    topic TEXT NOT NULL,
    tags TEXT NOT NULL,
    keywords TEXT NOT NULL,
    importance REAL NOT NULL,
    anchor INTEGER NOT NULL,
    occurred INTEGER NOT NULL,
    tier TEXT NOT NULL,
    metadata TEXT NOT NULL,
    amended INTEGER NOT NULL,
    amended_by TEXT NOT NULL,
    PRIMARY KEY (memory, number)
) STRICT;

CREATE TABLE job (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created INTEGER NOT NULL,
    due INTEGER NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    most_attempts INTEGER NOT NULL,
    lease_owner TEXT,
    lease_until INTEGER,
    finished INTEGER,
    error TEXT,
    result TEXT,
    key TEXT
) STRICT;

CREATE UNIQUE INDEX job_key ON job (key) WHERE state = 'waiting' AND key IS NOT NULL;
CREATE INDEX job_waiting ON job (due, id) WHERE state = 'waiting';
CREATE INDEX job_running ON job (lease_until) WHERE state = 'running';
CREATE INDEX job_created ON job (created, id);

CREATE TABLE cursor (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

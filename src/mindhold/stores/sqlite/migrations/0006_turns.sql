-- The messages of projects' logs, a long one once: counted and listed in order of time without reading a record.

CREATE INDEX memory_turn ON memory (scope, status, occurred, id, agent, trust, embedded_by)
    WHERE dialect = 'project' AND kind = 'episode' AND json_extract(metadata, '$.part') IS NULL;

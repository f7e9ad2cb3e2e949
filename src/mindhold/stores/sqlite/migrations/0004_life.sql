-- The life of a memory: what came of it, what upkeep has looked at, and when it looks again.

ALTER TABLE memory ADD COLUMN shown INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memory ADD COLUMN usefulness REAL NOT NULL DEFAULT 0;
ALTER TABLE memory ADD COLUMN verified INTEGER;
ALTER TABLE memory ADD COLUMN examined INTEGER;
ALTER TABLE memory ADD COLUMN decayed INTEGER;
ALTER TABLE memory ADD COLUMN review INTEGER;
ALTER TABLE memory ADD COLUMN stirred INTEGER; -- when it was last shown or rated

CREATE INDEX memory_review ON memory (review, id, scope, status, agent) WHERE review IS NOT NULL;
-- What waits is soon done, so these two stay small however large the store is.
CREATE INDEX memory_unverified ON memory (occurred, id) WHERE verified IS NULL AND status = 'active';
CREATE INDEX memory_unexamined ON memory (occurred, id) WHERE examined IS NULL AND status = 'active';

-- Keywords as they are compared: derived from the records.
CREATE TABLE keyword (
    memory INTEGER NOT NULL REFERENCES memory (row) ON DELETE CASCADE,
    form TEXT NOT NULL,
    PRIMARY KEY (memory, form)
) STRICT, WITHOUT ROWID;

CREATE INDEX keyword_form ON keyword (form);

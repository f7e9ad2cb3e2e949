-- Small keyed values that may expire: keys, grants, visits, conversations.

CREATE TABLE entry (
    drawer TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    PRIMARY KEY (drawer, key)
) STRICT;

CREATE INDEX entry_created ON entry (drawer, created);
CREATE INDEX entry_expires ON entry (expires) WHERE expires IS NOT NULL;

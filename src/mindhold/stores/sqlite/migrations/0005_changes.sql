-- Who listens asks again and again what was written or changed lately.

CREATE INDEX memory_updated ON memory (updated, id, scope, status, agent);

-- Who listens asks again and again what was written or changed lately.

CREATE INDEX fragments_updated ON fragments (updated_at, id);

-- The messages of projects' logs, a long one once: counted and listed in order of time without reading a record.

-- PostgreSQL reads no JSON that has an escaped NUL, not even another key of it. Not in SQL, which would be put in the place
-- of its name, and the index no longer be known by it.
CREATE FUNCTION is_later_part(metadata json) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF strpos(metadata::text, '"part"') = 0 OR strpos(metadata::text, '\u0000') > 0 THEN
        RETURN false;
    END IF;
    RETURN (metadata -> 'part') IS NOT NULL;
END
$$;

CREATE INDEX fragments_turn ON fragments (scope, status, occurred_at, id, agent_id, trust, embedded_by)
    WHERE dialect = 'project' AND type = 'episode' AND NOT is_later_part(metadata);

-- The life of a memory: what came of it, what upkeep has looked at, and when it looks again. Upkeep sees each record that
-- is there already once; it begins to fade now, and waits neither to be judged nor to be compared. A default that is the
-- same for all is written into no record.

DROP INDEX fragments_verified;
ALTER TABLE fragments RENAME COLUMN verified_at TO updated_at;
ALTER TABLE fragments
    ADD COLUMN verified_at timestamptz -- when it was last found worth keeping; it waits for that where there is none
        DEFAULT coalesce(current_setting('mindhold.now', true)::timestamptz, now()),
    ADD COLUMN examined_at timestamptz -- when it was last held against its neighbours; the same
        DEFAULT coalesce(current_setting('mindhold.now', true)::timestamptz, now()),
    ADD COLUMN decayed_at timestamptz
        DEFAULT coalesce(current_setting('mindhold.now', true)::timestamptz, now()),
    ADD COLUMN review_at timestamptz
        DEFAULT coalesce(current_setting('mindhold.now', true)::timestamptz, now()),
    ADD COLUMN stirred_at timestamptz, -- when it was last shown or rated
    ADD COLUMN shown bigint NOT NULL DEFAULT 0,
    ADD COLUMN usefulness double precision NOT NULL DEFAULT 0 CHECK (usefulness BETWEEN -1 AND 1);
ALTER TABLE fragments
    ALTER COLUMN verified_at DROP DEFAULT,
    ALTER COLUMN examined_at DROP DEFAULT,
    ALTER COLUMN decayed_at DROP DEFAULT,
    ALTER COLUMN review_at DROP DEFAULT;

CREATE INDEX fragments_verified ON fragments (verified_at);
-- What waits is soon done, so these two stay small however large the store is.
CREATE INDEX fragments_unverified ON fragments (occurred_at, id) WHERE verified_at IS NULL AND status = 'active';
CREATE INDEX fragments_unexamined ON fragments (occurred_at, id) WHERE examined_at IS NULL AND status = 'active';

-- What use and upkeep change again and again, where it is looked up by: an index over the record's own columns would have
-- each such change write all indexes of the record, the vectors' among them, which takes as long as remembering it.
-- Without row security, as `fragment_lexemes` is: it yields the rows' numbers, and their order.
CREATE TABLE fragment_standing (
    row bigint PRIMARY KEY REFERENCES fragments (row) ON DELETE CASCADE,
    id text COLLATE "C" NOT NULL,
    importance double precision NOT NULL,
    ttl_tier text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    review_at timestamptz
);

INSERT INTO fragment_standing (row, id, importance, ttl_tier, created_at, review_at)
SELECT row, id, importance, ttl_tier, created_at, review_at FROM fragments;

DROP INDEX fragments_importance, fragments_tier, fragments_anchor;
CREATE INDEX fragments_anchor ON fragments (id) WHERE is_anchor;
CREATE INDEX fragment_standing_importance ON fragment_standing (importance DESC, id DESC);
CREATE INDEX fragment_standing_tier ON fragment_standing (ttl_tier, created_at);
CREATE INDEX fragment_standing_due ON fragment_standing (review_at, id);

CREATE FUNCTION note_standing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO agent_memory.fragment_standing (row, id, importance, ttl_tier, created_at, review_at)
    VALUES (new.row, new.id, new.importance, new.ttl_tier, new.created_at, new.review_at)
    ON CONFLICT (row) DO UPDATE SET importance = excluded.importance, ttl_tier = excluded.ttl_tier,
        created_at = excluded.created_at, review_at = excluded.review_at;
    RETURN NULL;
END
$$;

CREATE TRIGGER fragment_placed AFTER INSERT ON fragments FOR EACH ROW EXECUTE FUNCTION note_standing();
CREATE TRIGGER fragment_moved AFTER UPDATE OF importance, ttl_tier, created_at, review_at ON fragments FOR EACH ROW
    WHEN (
        old.importance <> new.importance OR old.ttl_tier <> new.ttl_tier OR old.created_at <> new.created_at
        OR old.review_at IS DISTINCT FROM new.review_at
    ) EXECUTE FUNCTION note_standing();

-- Keywords as they are compared, which only Mindhold can tell. Without row security, for arrays are compared by
-- operators that may use no index of a table that has it.
CREATE TABLE fragment_keywords (
    row bigint PRIMARY KEY REFERENCES fragments (row) ON DELETE CASCADE,
    forms text[] COLLATE "C" NOT NULL
);

CREATE INDEX fragment_keywords_forms ON fragment_keywords USING gin (forms) WITH (gin_pending_list_limit = 128);

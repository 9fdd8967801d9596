-- Splits of any key; how many readers a user wants; which of the two backfills has begun.
ALTER TABLE splits
    ADD COLUMN version smallint NOT NULL DEFAULT 2 CHECK (version IN (1, 2)),
    ADD COLUMN left_key jsonb,
    ADD COLUMN right_key jsonb,
    ADD COLUMN cursor_key jsonb;
COMMENT ON COLUMN splits.left_key IS
    'the key''s parts in the source''s text form; rows of before have left_bound, and so on';
COMMENT ON COLUMN splits.cursor_key IS 'the last key that was read; NULL: none yet';
COMMENT ON COLUMN splits.version IS '1: one reader in key order, 2: splits in parallel';

ALTER TABLE relations ADD COLUMN parallelism int CHECK (parallelism BETWEEN 1 AND 256);
COMMENT ON COLUMN relations.parallelism IS
    'how many readers a user wants for its backfill; NULL is what its definition says';

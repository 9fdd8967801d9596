-- Pins that end by themselves, bases that outlive the log between them, files that know their keys.
ALTER TABLE pins ADD COLUMN expires_at timestamptz;
ALTER TABLE pins ADD COLUMN taken_at timestamptz NOT NULL DEFAULT clock_timestamp();
COMMENT ON COLUMN pins.expires_at IS 'NULL: held until its owner lets go';

ALTER TABLE relations ADD COLUMN log_start bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN relations.log_start IS
    'the log is whole after this epoch; a base before it is readable at its own epoch only';
UPDATE relations SET log_start = bases.epoch
FROM (SELECT relation, min(epoch) AS epoch FROM bases GROUP BY relation) AS bases
WHERE bases.relation = relations.id
    AND NOT EXISTS (
        SELECT FROM files WHERE files.relation = relations.id AND files.unlisted_at IS NULL
            AND (files.kind = 'snapshot' OR files.epoch <= bases.epoch)
    );

ALTER TABLE files ADD COLUMN key_ranges jsonb;
COMMENT ON COLUMN files.key_ranges IS
    'ranges of the first key column that hold all rows; NULL: unknown';

-- A TRUNCATE is a mark on the log file of its epoch: nothing before it counts any more.
ALTER TABLE files ADD COLUMN truncates boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN files.truncates IS
    'the table was truncated in this range: the file says all that came after, and nothing before counts';

-- Rows whose large values did not change and were not sent have holes, which the row's previous
-- version fills.
ALTER TABLE files ADD COLUMN hole_rows bigint NOT NULL DEFAULT 0;
ALTER TABLE relations ADD COLUMN fill_lsn bigint;
COMMENT ON COLUMN relations.fill_lsn IS
    'up to here the stream must come before the table may be live: rows were read again for holes';

-- A table's columns change at the end of an epoch; each file says by which version it was written.
ALTER TABLE relations ADD COLUMN schema_version int NOT NULL DEFAULT 1;
ALTER TABLE files ADD COLUMN schema_version int NOT NULL DEFAULT 1;
ALTER TABLE bases ADD COLUMN schema_version int NOT NULL DEFAULT 1;
CREATE TABLE past_schemas (
    relation bigint NOT NULL REFERENCES relations (id),
    version int NOT NULL,
    upto bigint NOT NULL,
    schema jsonb NOT NULL,
    origin jsonb,
    PRIMARY KEY (relation, version)
);
COMMENT ON COLUMN past_schemas.upto IS 'the last epoch this version is for';

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

-- Differences between a table and its source, on their way into a checkpoint; epochs not to trust.
CREATE TABLE repairs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relation bigint NOT NULL REFERENCES relations (id),
    graph text NOT NULL REFERENCES graphs (id),
    term bigint NOT NULL,
    attempt bigint NOT NULL REFERENCES attempts (id),
    path text NOT NULL,
    since bigint NOT NULL,
    rows bigint NOT NULL,
    taken_epoch bigint,
    taken_rows bigint
);
CREATE INDEX ON repairs (relation) WHERE taken_epoch IS NULL;
COMMENT ON COLUMN repairs.since IS
    'the epoch the rows were compared at, pinned: keys that the log after it names are left out';
COMMENT ON COLUMN repairs.term IS 'of `graph`, whose owner found them; those of an older one are void';

ALTER TABLE relations ADD COLUMN looks_up_old boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN relations.looks_up_old IS
    'the table may differ from its source: what an event says was there before is not believed';

CREATE TABLE gaps (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relation bigint NOT NULL REFERENCES relations (id),
    after_epoch bigint NOT NULL,
    upto_epoch bigint,
    why text NOT NULL
);
CREATE UNIQUE INDEX ON gaps (relation) WHERE upto_epoch IS NULL;
COMMENT ON TABLE gaps IS 'epochs in (after, upto) lack changes of the source; NULL: to this day';

ALTER TABLE sources ADD COLUMN renewing text;
COMMENT ON COLUMN sources.renewing IS
    'why the slot is being made anew; until its beginning is stored no stream may start';

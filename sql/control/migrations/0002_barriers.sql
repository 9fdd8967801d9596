-- Live settings, pause and throttle; a trace of barriers into which several starts of a term fit.
ALTER TABLE pipelines
    ADD COLUMN checkpoint_frequency int NOT NULL DEFAULT 1 CHECK (checkpoint_frequency >= 1),
    ADD COLUMN set_interval_ms int CHECK (set_interval_ms >= 100),
    ADD COLUMN set_checkpoint_frequency int CHECK (set_checkpoint_frequency >= 1),
    ADD COLUMN paused boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN pipelines.set_interval_ms IS
    'set by a user for this pipeline, and stronger than interval_ms, the deployment''s';
COMMENT ON COLUMN pipelines.paused IS
    'what is wanted; the stream run takes it with its next barrier, a backfill before its next page';

ALTER TABLE relations
    ADD COLUMN rows_per_second bigint CHECK (rows_per_second > 0),
    ADD COLUMN snapshot_rows bigint;
COMMENT ON COLUMN relations.rows_per_second IS 'how fast a backfill may read; NULL is no limit';
COMMENT ON COLUMN relations.snapshot_rows IS
    'about how many rows a view''s snapshot has; NULL where nobody counted them';

ALTER TABLE commands DROP CONSTRAINT commands_kind_check;
ALTER TABLE commands ADD CONSTRAINT commands_kind_check
    CHECK (kind IN ('flush', 'stop', 'pause', 'resume'));

-- A graph that recovers in its term begins again at the committed epoch: (graph, prev, term) is
-- not unique.
ALTER TABLE barriers DROP CONSTRAINT barriers_pkey;
ALTER TABLE barriers
    ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY,
    ADD COLUMN mutation text,
    ADD COLUMN waiting_rows bigint,
    ADD PRIMARY KEY (graph, id);
COMMENT ON COLUMN barriers.waiting_rows IS
    'rows the sources had gathered at the barrier before and no checkpoint had taken';

-- The control store: what is committed, by whom, and from which files.
CREATE TABLE pipelines (
    name text PRIMARY KEY,
    granted_until timestamptz NOT NULL DEFAULT '-infinity',
    interval_ms int NOT NULL DEFAULT 1000
);

CREATE TABLE sources (
    pipeline text NOT NULL REFERENCES pipelines (name),
    name text NOT NULL,
    definition text NOT NULL,
    slot text NOT NULL,
    publication text NOT NULL,
    identity text,
    "offset" jsonb,
    PRIMARY KEY (pipeline, name)
);

CREATE TABLE graphs (
    id text PRIMARY KEY,
    pipeline text NOT NULL REFERENCES pipelines (name),
    kind text NOT NULL CHECK (kind IN ('main', 'backfill', 'maintenance')),
    committed bigint NOT NULL DEFAULT 0,
    term bigint NOT NULL DEFAULT 0,
    generation bigint NOT NULL DEFAULT 1,
    passed_term bigint NOT NULL DEFAULT 0,
    passed bigint NOT NULL DEFAULT 0,
    owner text,
    lease_until timestamptz
);
COMMENT ON COLUMN graphs.passed IS
    'newest (term, epoch) of a backfill graph whose watermark message the main graph has committed';

CREATE TABLE attempts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    graph text NOT NULL REFERENCES graphs (id),
    term bigint NOT NULL,
    directory text NOT NULL,
    state text NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'failed', 'committed', 'retired', 'collected')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON attempts (state) WHERE state IN ('open', 'failed', 'retired');

CREATE TABLE barriers (
    graph text NOT NULL REFERENCES graphs (id),
    prev bigint NOT NULL,
    curr bigint NOT NULL CHECK (curr > prev),
    term bigint NOT NULL,
    kind text NOT NULL,
    injected_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (graph, prev, term)
);

CREATE TABLE epochs (
    graph text NOT NULL REFERENCES graphs (id),
    epoch bigint NOT NULL,
    prev bigint NOT NULL,
    term bigint NOT NULL,
    rows bigint NOT NULL DEFAULT 0,
    offsets jsonb,
    committed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (graph, epoch)
);

CREATE TABLE relations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline text NOT NULL REFERENCES pipelines (name),
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('table', 'view', 'state')),
    version int NOT NULL DEFAULT 1,
    definition text NOT NULL,
    schema jsonb NOT NULL,
    origin jsonb,
    vnode_count int NOT NULL,
    path text NOT NULL,
    graph text NOT NULL REFERENCES graphs (id),
    upstream bigint REFERENCES relations (id),
    state text NOT NULL,
    why text,
    live_since bigint,
    snapshot_epoch bigint,
    in_step boolean NOT NULL DEFAULT false,
    bound_term bigint,
    UNIQUE (pipeline, name, version)
);
COMMENT ON COLUMN relations.bound_term IS
    'term of the main graph that takes this relation''s changes; a table is published after that';

CREATE TABLE files (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relation bigint NOT NULL REFERENCES relations (id),
    attempt bigint NOT NULL REFERENCES attempts (id),
    kind text NOT NULL CHECK (kind IN ('log', 'snapshot')),
    after_epoch bigint NOT NULL,
    epoch bigint NOT NULL,
    path text NOT NULL UNIQUE,
    rows bigint NOT NULL,
    bytes bigint NOT NULL,
    unknown_rows bigint NOT NULL DEFAULT 0,
    unlisted_at timestamptz,
    removed_at timestamptz
);
CREATE INDEX ON files (relation, kind, epoch) WHERE unlisted_at IS NULL;

CREATE TABLE bases (
    relation bigint NOT NULL REFERENCES relations (id),
    epoch bigint NOT NULL,
    path text NOT NULL,
    version bigint NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (relation, epoch)
);

CREATE TABLE pins (
    relation bigint NOT NULL REFERENCES relations (id),
    owner text NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (relation, owner)
);

CREATE TABLE splits (
    relation bigint NOT NULL REFERENCES relations (id),
    split_id int NOT NULL,
    generation bigint NOT NULL,
    left_bound bigint,
    right_bound bigint,
    next_key bigint,
    rows bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    seconds double precision NOT NULL DEFAULT 0,
    finished boolean NOT NULL DEFAULT false,
    watermark_term bigint,
    watermark bigint,
    PRIMARY KEY (relation, split_id)
);

CREATE TABLE vnode_progress (
    relation bigint NOT NULL REFERENCES relations (id),
    vnode int NOT NULL,
    epoch bigint NOT NULL,
    row_count bigint NOT NULL,
    is_finished boolean NOT NULL,
    next_key jsonb,
    PRIMARY KEY (relation, vnode)
);

CREATE TABLE commands (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline text NOT NULL REFERENCES pipelines (name),
    kind text NOT NULL CHECK (kind IN ('flush', 'stop')),
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_epoch bigint
);
CREATE INDEX ON commands (pipeline) WHERE done_epoch IS NULL;

-- Versions of a relation beside each other, and relations and sources that go.
ALTER TABLE relations
    ADD COLUMN role text NOT NULL DEFAULT 'current' CHECK (role IN ('current', 'next', 'old')),
    ADD COLUMN build bigint,
    ADD COLUMN ended_at timestamptz,
    ADD COLUMN unpublished_at timestamptz,
    ADD COLUMN removed_at timestamptz;
COMMENT ON COLUMN relations.role IS
    'current: what its name means; next: being built beside it; old: dropped or replaced';
COMMENT ON COLUMN relations.build IS 'of a next version: all of one build are swapped in one commit';
COMMENT ON COLUMN relations.unpublished_at IS
    'of an old table: when its entry in the publication had gone, or was found to be needed';
COMMENT ON COLUMN relations.removed_at IS 'of an old relation: when its files had gone';
CREATE UNIQUE INDEX relations_current ON relations (pipeline, name) WHERE role = 'current';
CREATE UNIQUE INDEX relations_next ON relations (pipeline, name) WHERE role = 'next';
CREATE SEQUENCE builds;

ALTER TABLE sources
    ADD COLUMN bound_term bigint,
    ADD COLUMN dropped_at timestamptz,
    ADD COLUMN made_publication boolean,
    ADD COLUMN made_slot boolean;
COMMENT ON COLUMN sources.bound_term IS 'term of the main graph that reads this source''s slot';
COMMENT ON COLUMN sources.made_slot IS
    'Tidegate made it, and so takes it away; NULL: not begun, or before this was noted';

-- When a pipeline's definitions are looked at, and when its stream starts.
SELECT name, definition, slot, publication, identity, "offset"
FROM sources WHERE pipeline = %(pipeline)s AND dropped_at IS NULL ORDER BY name

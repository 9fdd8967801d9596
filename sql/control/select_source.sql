-- When a source is prepared and when its stream starts.
SELECT name, definition, slot, publication, identity, "offset", renewing,
    dropped_at IS NOT NULL AS dropping, coalesce(made_slot, true) AS made_slot,
    coalesce(made_publication, true) AS made_publication
FROM sources WHERE pipeline = %(pipeline)s AND name = %(name)s

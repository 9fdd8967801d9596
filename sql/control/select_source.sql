-- When a source is prepared and when its stream starts.
SELECT name, definition, slot, publication, identity, "offset", renewing
FROM sources WHERE pipeline = %(pipeline)s AND name = %(name)s

-- When the new slot is there: what the server is, and where the stream begins.
UPDATE sources SET identity = %(identity)s, "offset" = %(offset)s, renewing = NULL
WHERE pipeline = %(pipeline)s AND name = %(name)s

-- Once, after the slot exists: what the server is, and where the stream begins.
UPDATE sources SET identity = %(identity)s, "offset" = %(offset)s
WHERE pipeline = %(pipeline)s AND name = %(name)s AND identity IS NULL

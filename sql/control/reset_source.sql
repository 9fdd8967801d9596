-- When the stream of a source is begun anew: nothing is known of where it was.
UPDATE sources SET identity = NULL, "offset" = NULL, renewing = NULL
WHERE pipeline = %(pipeline)s AND name = %(name)s

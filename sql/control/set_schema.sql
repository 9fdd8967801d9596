-- With it: what the columns are from here on; the stream run must take the table in anew.
UPDATE relations SET schema = %(schema)s, origin = %(origin)s, schema_version = %(version)s,
    bound_term = NULL
WHERE id = %(relation)s AND schema_version = %(version)s - 1

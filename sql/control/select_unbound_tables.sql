-- Before a table is published: those a running stream does not know of yet.
SELECT relations.name FROM relations
    JOIN graphs ON graphs.pipeline = relations.pipeline AND graphs.kind = 'main'
WHERE relations.pipeline = %(pipeline)s AND relations.kind = 'table'
    AND relations.role <> 'old'
    AND graphs.lease_until > clock_timestamp()
    AND relations.bound_term IS DISTINCT FROM graphs.term

-- By whoever takes tables down: those whose entry in the publication nobody has looked at since.
SELECT relations.id, relations.name, relations.definition
FROM relations JOIN graphs AS main ON main.id = relations.pipeline
WHERE relations.pipeline = %(pipeline)s AND relations.kind = 'table' AND relations.role = 'old'
    AND relations.unpublished_at IS NULL
    AND (
        relations.bound_term IS DISTINCT FROM main.term
        OR main.lease_until IS NULL OR main.lease_until < clock_timestamp()
    )
ORDER BY relations.id

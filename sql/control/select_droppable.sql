-- By whoever takes relations down: those that no stream run has, nobody reads and nothing needs.
SELECT relations.id, relations.name, relations.graph,
    relations.pipeline || '/' || relations.name
    || CASE WHEN relations.version > 1 THEN '/v' || relations.version ELSE '' END
    || '/maintenance' AS maintenance
FROM relations JOIN graphs AS main ON main.id = relations.pipeline
WHERE relations.pipeline = %(pipeline)s AND relations.role = 'old'
    AND relations.state <> 'Dropped'
    AND (
        relations.bound_term IS DISTINCT FROM main.term
        OR main.lease_until IS NULL OR main.lease_until < clock_timestamp()
    )
    AND NOT EXISTS (
        SELECT FROM pins
        WHERE pins.relation = relations.id AND pins.expires_at > clock_timestamp()
            -- The stream run's own: it has let go of the relation, as is asked above.
            AND pins.owner <> relations.pipeline
    )
    AND NOT EXISTS (
        SELECT FROM relations AS readers
        WHERE readers.upstream = relations.id AND readers.state <> 'Dropped'
    )
ORDER BY relations.id DESC

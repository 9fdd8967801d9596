-- By whoever takes sources down: those whose slot no stream run reads.
SELECT sources.name, sources.definition, sources.slot, sources.publication, sources.identity,
    coalesce(sources.made_slot, true) AS made_slot,
    coalesce(sources.made_publication, true) AS made_publication,
    sources.made_slot IS NOT NULL AS is_begun
FROM sources JOIN graphs AS main ON main.id = sources.pipeline
WHERE sources.pipeline = %(pipeline)s AND sources.dropped_at IS NOT NULL
    AND (
        sources.bound_term IS DISTINCT FROM main.term
        OR main.lease_until IS NULL OR main.lease_until < clock_timestamp()
    )
    -- Its tables are parsed with it.
    AND NOT EXISTS (
        SELECT FROM relations
        WHERE relations.pipeline = sources.pipeline AND relations.kind = 'table'
            AND relations.role = 'old' AND relations.unpublished_at IS NULL
    )
ORDER BY sources.name

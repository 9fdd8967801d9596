-- When a process wants to run a graph; the store's clock judges whether the last owner is gone.
UPDATE graphs SET term = term + 1, owner = %(owner)s,
    lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE id = %(graph)s AND (lease_until IS NULL OR lease_until < clock_timestamp())
    AND NOT EXISTS (
        SELECT FROM relations WHERE relations.graph = graphs.id AND relations.role = 'old'
    )
    -- A view in step, or about to be, is moved by the main graph alone.
    AND NOT EXISTS (
        SELECT FROM relations
        WHERE relations.graph = graphs.id AND relations.kind = 'view'
            AND (relations.in_step OR relations.state = 'Finishing')
    )
RETURNING term, committed, generation

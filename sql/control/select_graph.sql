-- When a graph's epoch, owner or lease is looked at.
SELECT id, pipeline, kind, committed, term, generation, passed_term, passed, owner,
    EXISTS (
        SELECT FROM relations WHERE relations.graph = graphs.id AND relations.role = 'old'
    ) AS ended,
    greatest(0, extract(epoch FROM lease_until - clock_timestamp()))::float AS seconds_left
FROM graphs WHERE id = %(graph)s

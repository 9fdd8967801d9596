-- When a graph's epoch, owner or lease is looked at.
SELECT id, pipeline, kind, committed, term, generation, passed_term, passed, owner,
    greatest(0, extract(epoch FROM lease_until - clock_timestamp()))::float AS seconds_left
FROM graphs WHERE id = %(graph)s

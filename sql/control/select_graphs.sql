-- When the graphs of a pipeline are looked at.
SELECT id, pipeline, kind, committed, term, generation, passed_term, passed, owner,
    greatest(0, extract(epoch FROM lease_until - clock_timestamp()))::float AS seconds_left
FROM graphs WHERE pipeline = %(pipeline)s ORDER BY id

-- When a main graph makes its actors: from here on this term takes the changes of these, and of no
-- others; what was dropped or replaced may be taken down.
UPDATE relations
SET bound_term = CASE WHEN id = ANY(%(relations)s) THEN %(term)s::bigint END
WHERE pipeline = %(pipeline)s
    AND (id = ANY(%(relations)s) OR bound_term IS NOT DISTINCT FROM %(term)s)

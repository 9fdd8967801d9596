-- When a main graph makes its actors: these are the sources whose slots this term reads.
UPDATE sources
SET bound_term = CASE WHEN name = ANY(%(sources)s) THEN %(term)s::bigint END
WHERE pipeline = %(pipeline)s
    AND (name = ANY(%(sources)s) OR bound_term IS NOT DISTINCT FROM %(term)s)

-- When a main graph starts its actors: from here on this term takes the changes of these.
UPDATE relations SET bound_term = %(term)s WHERE id = ANY(%(relations)s)

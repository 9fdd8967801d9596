-- When a relation is dropped, given up or replaced: from here on its name does not mean it.
UPDATE relations SET role = 'old', state = 'Dropping', why = %(why)s, ended_at = clock_timestamp()
WHERE id = ANY(%(relations)s) AND role <> 'old'

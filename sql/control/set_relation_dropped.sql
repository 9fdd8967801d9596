-- With all that the store kept of a relation; its files follow.
UPDATE relations SET state = 'Dropped', in_step = false, ended_at = clock_timestamp()
WHERE id = %(relation)s AND role = 'old'

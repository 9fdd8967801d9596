-- By a backfill that cannot go on: the version it builds stops, the current one stays.
UPDATE relations SET state = 'Stopped', why = %(why)s
WHERE id = %(relation)s AND role = 'next' AND state <> 'Stopped'

-- When an attempt is given up by its own process.
UPDATE attempts SET state = 'failed' WHERE id = %(attempt)s AND state = 'open'

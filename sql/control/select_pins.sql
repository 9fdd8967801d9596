-- Under the relation's row lock, before files are replaced.
SELECT owner, epoch FROM pins
WHERE relation = %(relation)s AND (expires_at IS NULL OR expires_at > clock_timestamp())
ORDER BY epoch

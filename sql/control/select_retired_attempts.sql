-- The collector's second step: what may be deleted.
SELECT attempts.id, attempts.directory
FROM attempts JOIN graphs ON graphs.id = attempts.graph
WHERE graphs.pipeline = %(pipeline)s AND attempts.state = 'retired'
ORDER BY attempts.id

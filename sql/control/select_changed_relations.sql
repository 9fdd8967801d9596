-- By a stream run, once a minute: which tables and views have changes after an epoch.
SELECT DISTINCT relations.name
FROM relations JOIN files ON files.relation = relations.id
WHERE relations.pipeline = %(pipeline)s AND relations.role = 'current'
    AND relations.kind IN ('table', 'view')
    AND files.kind = 'log' AND files.epoch > %(after)s
ORDER BY relations.name

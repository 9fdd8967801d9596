-- By the stream run, after a commit: relations whose log has become many files.
SELECT files.relation, count(*) AS files
FROM files JOIN relations ON relations.id = files.relation
WHERE relations.pipeline = %(pipeline)s AND relations.role <> 'old'
    AND files.kind = 'log' AND files.unlisted_at IS NULL
GROUP BY files.relation HAVING count(*) > %(limit)s

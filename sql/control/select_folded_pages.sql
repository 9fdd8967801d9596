-- By a vacuum: snapshot files that a base stands for; old Delta versions may still name them.
SELECT id, path FROM files
WHERE relation = %(relation)s AND kind = 'snapshot' AND unlisted_at IS NOT NULL
    AND removed_at IS NULL
ORDER BY id

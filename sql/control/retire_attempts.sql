-- The collector's first step: from here on none of these can commit.
UPDATE attempts SET state = 'retired'
FROM graphs
WHERE graphs.id = attempts.graph AND graphs.pipeline = %(pipeline)s
    AND (attempts.state = 'failed' OR (attempts.state = 'open' AND attempts.term < graphs.term))

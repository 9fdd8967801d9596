-- By a backfill, about once a second: is it to pause, and how fast may it read?
SELECT pipelines.paused, relations.rows_per_second
FROM relations JOIN pipelines ON pipelines.name = relations.pipeline
WHERE relations.id = %(relation)s

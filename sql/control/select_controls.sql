-- By a backfill, about twice a second: is it to pause, how fast may it read, with how many readers?
SELECT pipelines.paused, relations.rows_per_second, relations.parallelism
FROM relations JOIN pipelines ON pipelines.name = relations.pipeline
WHERE relations.id = %(relation)s

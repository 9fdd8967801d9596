-- In the main graph's commit that holds a backfill's watermark message.
UPDATE graphs SET passed = greatest(passed, %(epoch)s)
WHERE id = %(graph)s AND generation = %(generation)s

-- When a backfill must begin anew: pages in flight are refused.
UPDATE graphs SET generation = generation + 1 WHERE id = %(graph)s

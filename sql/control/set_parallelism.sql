-- When a user changes how many readers a table's backfill has; NULL is what its definition says.
UPDATE relations SET parallelism = %(parallelism)s WHERE id = %(relation)s

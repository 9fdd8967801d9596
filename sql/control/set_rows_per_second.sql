-- When a user throttles the backfill of a table; NULL is no limit.
UPDATE relations SET rows_per_second = %(rows_per_second)s WHERE id = %(relation)s

-- When a backfill must begin anew, and when a relation is taken down.
DELETE FROM splits WHERE relation = %(relation)s

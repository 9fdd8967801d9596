-- When a backfill must begin anew.
DELETE FROM splits WHERE relation = %(relation)s

-- When a relation is taken down.
DELETE FROM splits WHERE relation = %(relation)s

-- When a relation is taken down.
DELETE FROM bases WHERE relation = %(relation)s

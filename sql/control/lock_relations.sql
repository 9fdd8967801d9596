-- The same as lock_relation, for several in one order.
SELECT id FROM relations WHERE id = ANY(%(relations)s) ORDER BY id FOR NO KEY UPDATE

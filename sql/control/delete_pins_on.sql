-- When a relation is taken down: nobody who reads is left, those who forgot theirs are.
DELETE FROM pins WHERE relation = %(relation)s

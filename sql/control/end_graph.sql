-- When its relation is taken down: whoever still works on it may commit no more.
UPDATE graphs SET term = term + 1, owner = NULL, lease_until = NULL WHERE id = %(graph)s

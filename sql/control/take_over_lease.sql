-- When the main graph takes a view in: the follower's term ends whether it likes it or not.
UPDATE graphs SET term = term + 1, owner = %(owner)s, lease_until = NULL
WHERE id = %(graph)s
RETURNING term, committed, generation

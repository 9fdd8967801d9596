-- When a fold is recorded: bases nobody can ask for any more; their Delta versions may be vacuumed.
DELETE FROM bases WHERE relation = %(relation)s AND epoch = ANY(%(epochs)s)

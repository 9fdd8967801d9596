-- When a relation is taken down.
DELETE FROM vnode_progress WHERE relation = %(relation)s

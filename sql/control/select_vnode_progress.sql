-- When a view's snapshot starts, goes on, or is looked at.
SELECT vnode, epoch, row_count, is_finished FROM vnode_progress
WHERE relation = %(relation)s ORDER BY vnode

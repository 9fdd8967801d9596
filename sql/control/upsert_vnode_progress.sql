-- In the commit of a view's snapshot wave.
INSERT INTO vnode_progress (relation, vnode, epoch, row_count, is_finished, next_key)
VALUES (%(relation)s, %(vnode)s, %(epoch)s, %(row_count)s, %(is_finished)s, NULL)
ON CONFLICT (relation, vnode) DO UPDATE SET epoch = excluded.epoch,
    row_count = excluded.row_count, is_finished = excluded.is_finished

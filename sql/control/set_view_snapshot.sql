-- Once per view: the epoch its snapshot is read at.
UPDATE relations SET snapshot_epoch = %(epoch)s, state = 'ConsumingSnapshot'
WHERE id = %(relation)s AND snapshot_epoch IS NULL AND role <> 'old'

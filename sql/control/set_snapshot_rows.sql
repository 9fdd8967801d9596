-- With the epoch of a view's snapshot: about how many rows it has.
UPDATE relations SET snapshot_rows = %(rows)s WHERE id = %(relation)s

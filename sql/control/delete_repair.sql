-- In the main graph's commit: rows that no longer fit the table, for their owner to find again.
DELETE FROM repairs WHERE id = %(repair)s AND taken_epoch IS NULL

-- In the main graph's commit. No row: another process has begun the table's repair anew.
UPDATE repairs SET taken_epoch = %(epoch)s, taken_rows = %(rows)s
FROM graphs
WHERE repairs.id = %(repair)s AND repairs.taken_epoch IS NULL
    AND graphs.id = repairs.graph AND graphs.term = repairs.term

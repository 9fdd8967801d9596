-- Before a table is repaired, and when it is right again.
UPDATE relations SET looks_up_old = %(looks_up)s WHERE id = %(relation)s

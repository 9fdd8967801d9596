-- By whoever works on a table for long: is it still what it was?
SELECT state, why FROM relations WHERE id = %(relation)s

-- By a new owner of a table's repair: what an earlier one found and nobody has taken is void.
DELETE FROM repairs WHERE relation = %(relation)s AND taken_epoch IS NULL

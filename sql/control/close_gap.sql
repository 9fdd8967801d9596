-- When a table is repaired: from this epoch on it is its source's table again.
UPDATE gaps SET upto_epoch = %(upto)s WHERE relation = %(relation)s AND upto_epoch IS NULL

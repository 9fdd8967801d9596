-- The commit point: exactly one row, or the owner's term is over.
UPDATE graphs SET committed = %(epoch)s
WHERE id = %(graph)s AND committed = %(prev)s AND term = %(term)s

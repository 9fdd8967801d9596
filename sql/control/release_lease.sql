-- When an owner ends in good order.
UPDATE graphs SET lease_until = NULL, owner = NULL WHERE id = %(graph)s AND term = %(term)s

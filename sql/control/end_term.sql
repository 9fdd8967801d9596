-- By the barrier sensor, for a lease that ran out or whose run is known to have ended.
UPDATE graphs SET term = term + 1, owner = NULL, lease_until = NULL
WHERE id = %(graph)s AND term = %(term)s
    AND (%(owner_ended)s OR lease_until < clock_timestamp())

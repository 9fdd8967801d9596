-- A few times per lease, while the owner lives.
UPDATE graphs SET lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE id = %(graph)s AND term = %(term)s

-- After swap_out: the names mean the new versions.
UPDATE relations SET role = 'current', build = NULL
WHERE pipeline = %(pipeline)s AND role = 'next' AND build = %(build)s

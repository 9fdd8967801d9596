-- In the commit that names the attempt's files; a retired attempt changes no row.
UPDATE attempts SET state = 'committed'
WHERE id = %(attempt)s AND state = 'open' AND graph = %(graph)s AND term = %(term)s

-- In the commit that moves a table or view from one state to the next.
UPDATE relations SET state = %(state)s, why = %(why)s
WHERE id = %(relation)s AND role <> 'old'

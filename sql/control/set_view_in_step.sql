-- In the main graph's commit in which a view rejoins or falls out of step.
UPDATE relations SET in_step = %(in_step)s, state = %(state)s, why = %(why)s,
    live_since = coalesce(live_since, %(epoch)s)
WHERE id = %(relation)s AND role <> 'old'

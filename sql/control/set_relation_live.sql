-- In the main graph's commit in which a table goes live.
UPDATE relations SET state = 'Live', live_since = %(epoch)s, why = NULL
WHERE id = %(relation)s AND role <> 'old'

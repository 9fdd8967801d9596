-- In the main graph's commit that holds a backfill's watermark message.
UPDATE graphs SET passed_term = %(term)s, passed = %(epoch)s
WHERE id = %(graph)s AND generation = %(generation)s
    AND (passed_term, passed) < (%(term)s, %(epoch)s)

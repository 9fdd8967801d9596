-- In a page's commit, guarded by the generation.
UPDATE splits SET cursor_key = %(cursor)s, rows = rows + %(rows)s, bytes = bytes + %(bytes)s,
    seconds = seconds + %(seconds)s, finished = %(finished)s, watermark_term = %(term)s,
    watermark = %(watermark)s
WHERE relation = %(relation)s AND split_id = %(split_id)s AND generation = %(generation)s
    AND NOT finished

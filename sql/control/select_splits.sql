-- When a backfill starts or is looked at.
SELECT split_id, generation, version, left_key, right_key, cursor_key, left_bound, right_bound,
    next_key, rows, bytes, seconds, finished, watermark_term, watermark
FROM splits WHERE relation = %(relation)s ORDER BY split_id

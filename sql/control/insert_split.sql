-- Once per backfill generation, before the first page.
INSERT INTO splits (relation, split_id, generation, left_bound, right_bound, next_key)
VALUES (
    %(relation)s, %(split_id)s, %(generation)s, %(left_bound)s, %(right_bound)s, %(left_bound)s
)

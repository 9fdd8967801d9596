-- Once per backfill generation, before the first page.
INSERT INTO splits (relation, split_id, generation, version, left_key, right_key)
VALUES (
    %(relation)s, %(split_id)s, %(generation)s, %(version)s, %(left_key)s, %(right_key)s
)

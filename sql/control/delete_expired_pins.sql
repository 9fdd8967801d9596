-- When a round of folds begins: readers that went away without a word.
DELETE FROM pins USING relations
WHERE relations.id = pins.relation AND relations.pipeline = %(pipeline)s
    AND pins.expires_at <= clock_timestamp()

-- With the raised generation: all that is there now came after the TRUNCATE, and is in the log.
UPDATE splits SET generation = %(generation)s, finished = true,
    watermark_term = 0, watermark = 0
WHERE relation = %(relation)s

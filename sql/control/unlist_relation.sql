-- When a backfill must begin anew: neither its pages nor its log say any more what the source has.
UPDATE files SET unlisted_at = clock_timestamp()
WHERE relation = %(relation)s AND unlisted_at IS NULL

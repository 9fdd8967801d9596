-- By a vacuum: snapshot files that a base stands for and that no reader of them is left; Delta
-- versions may still name them.
SELECT id, path FROM files
WHERE relation = %(relation)s AND kind = 'snapshot' AND removed_at IS NULL
    AND unlisted_at < clock_timestamp() - make_interval(secs => %(grace_seconds)s)
    AND NOT EXISTS (
        SELECT FROM pins
        WHERE pins.relation = files.relation AND pins.taken_at <= files.unlisted_at
            AND (pins.expires_at IS NULL OR pins.expires_at > clock_timestamp())
    )
ORDER BY id

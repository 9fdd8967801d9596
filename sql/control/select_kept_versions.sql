-- By a vacuum: the versions of a base that can be asked for, or that a reader may still be using.
SELECT DISTINCT version FROM bases
WHERE relation = %(relation)s
    AND (
        forgotten_at IS NULL
        OR forgotten_at >= clock_timestamp() - make_interval(secs => %(grace_seconds)s)
        OR EXISTS (
            SELECT FROM pins
            WHERE pins.relation = bases.relation AND pins.taken_at <= bases.forgotten_at
                AND (pins.expires_at IS NULL OR pins.expires_at > clock_timestamp())
        )
    )
ORDER BY version

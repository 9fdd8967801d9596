-- When a fold is recorded: forgotten bases that no reader can still be using.
DELETE FROM bases
WHERE relation = %(relation)s
    AND forgotten_at < clock_timestamp() - make_interval(secs => %(grace_seconds)s)
    AND NOT EXISTS (
        SELECT FROM pins
        WHERE pins.relation = bases.relation AND pins.taken_at <= bases.forgotten_at
            AND (pins.expires_at IS NULL OR pins.expires_at > clock_timestamp())
    )

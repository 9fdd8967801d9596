-- By maintenance, every second: is there anything to take down?
SELECT EXISTS (
    SELECT FROM relations
    WHERE pipeline = %(pipeline)s AND role = 'old'
        AND (state <> 'Dropped' OR kind = 'table' AND unpublished_at IS NULL)
) OR EXISTS (
    SELECT FROM sources WHERE pipeline = %(pipeline)s AND dropped_at IS NOT NULL
) AS has_ended

-- In the main graph's commit: once all its files are taken in, an attempt is the collector's.
UPDATE attempts SET state = 'failed'
FROM repairs
WHERE repairs.id = %(repair)s AND attempts.id = repairs.attempt AND attempts.state = 'open'
    AND NOT EXISTS (
        SELECT FROM repairs AS others
        WHERE others.attempt = repairs.attempt AND others.taken_epoch IS NULL
    )

-- By the barrier sensor, each tick: barriers may be made until then.
UPDATE pipelines
SET granted_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE name = %(pipeline)s

-- When files were merged or folded into others; their bytes live on for a while.
UPDATE files SET unlisted_at = clock_timestamp()
WHERE id = ANY(%(files)s) AND unlisted_at IS NULL

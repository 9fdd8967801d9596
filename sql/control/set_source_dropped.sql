-- When a definition is applied that has this source no more; its slot goes once nobody reads it.
UPDATE sources SET dropped_at = clock_timestamp()
WHERE pipeline = %(pipeline)s AND name = %(name)s AND dropped_at IS NULL

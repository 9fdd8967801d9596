-- When its slot and its publication have gone.
DELETE FROM sources WHERE pipeline = %(pipeline)s AND name = %(name)s AND dropped_at IS NOT NULL

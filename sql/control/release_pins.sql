-- When a reader is done: was what it read held to the end?
DELETE FROM pins WHERE owner = %(owner)s RETURNING expires_at > clock_timestamp() AS held

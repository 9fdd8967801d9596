-- The collector, after the bytes are gone.
UPDATE files SET removed_at = clock_timestamp() WHERE id = %(file)s

-- By whoever takes tables down: also of sources that are being dropped.
SELECT name, definition FROM sources WHERE pipeline = %(pipeline)s ORDER BY name

-- Run when a table leaves its pipeline.
ALTER PUBLICATION {publication} DROP TABLE ONLY {table};

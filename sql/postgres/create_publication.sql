-- Run by the prepare step, before the slot is made.
CREATE PUBLICATION {publication} WITH (publish = 'insert, update, delete, truncate');

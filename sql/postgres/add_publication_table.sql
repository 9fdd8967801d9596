-- Run by the prepare step for each table that is not published yet.
ALTER PUBLICATION {publication} ADD TABLE ONLY {table};

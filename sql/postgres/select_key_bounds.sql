-- Run once when a table's splits are planned; both ends come from an integer key's index.
SELECT min({key})::int8 AS low, max({key})::int8 AS high FROM ONLY {table};

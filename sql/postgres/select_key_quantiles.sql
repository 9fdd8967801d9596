-- Run once when a table's splits are planned: keys that cut a sample of it into equal parts.
WITH sample AS (
  SELECT
    {named},
    row_number() OVER (ORDER BY {key}) - 1 AS place,
    count(*) OVER () AS total
  FROM ONLY {table} TABLESAMPLE SYSTEM ({percent}) REPEATABLE (7)
), sized AS (
  SELECT s.*, (s.total * 100 / {percent}::float8)::int8 AS rows FROM sample AS s
), cut AS (
  SELECT s.*, least({most}, ceil(s.rows::float8 / {rows_per_split}))::int8 AS parts FROM sized AS s
)
SELECT {texts}, c.rows, c.place
FROM cut AS c
WHERE c.place = 0 OR c.place * c.parts / c.total > (c.place - 1) * c.parts / c.total
ORDER BY c.place;

-- When a backfill is looked at: how many rows a second it committed in the last half minute.
WITH recent AS (
    SELECT rows, committed_at, row_number() OVER (ORDER BY epoch) AS place
    FROM epochs
    WHERE graph = %(graph)s AND committed_at > clock_timestamp() - interval '30 s'
)
-- What the first of them brought was read before it.
SELECT
    sum(rows) FILTER (WHERE place > 1)::float8
    / greatest(extract(epoch FROM clock_timestamp() - min(committed_at))::float8, 0.001)
    AS rows_per_s
FROM recent
HAVING count(*) > 1

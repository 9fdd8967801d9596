-- Run by one task per key range: how many rows it has, up to a limit, and the sum of their hashes.
SELECT count(*) AS rows, coalesce(sum(hash), 0)::text AS total
FROM (SELECT {hash} AS hash FROM ONLY {table} WHERE {where} ORDER BY {key} LIMIT {limit}) AS page;

-- When a time is read as an epoch: the newest committed at or before it, and the first of all.
SELECT max(epoch) FILTER (WHERE epoch <= %(latest)s) AS epoch, min(epoch) AS first
FROM epochs WHERE graph = %(graph)s

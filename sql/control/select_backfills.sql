-- When a pipeline is looked at: limits of its backfills, and how large the snapshots are.
SELECT id, rows_per_second, parallelism, snapshot_rows FROM relations
WHERE pipeline = %(pipeline)s AND kind <> 'state'

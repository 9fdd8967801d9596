-- When a pipeline is looked at or set: its live settings, and what waits for a checkpoint.
SELECT coalesce(pipelines.set_interval_ms, pipelines.interval_ms) AS interval_ms,
    coalesce(pipelines.set_checkpoint_frequency, pipelines.checkpoint_frequency)
        AS checkpoint_frequency,
    pipelines.paused,
    coalesce(
        (
            SELECT CASE WHEN barriers.kind = 'Barrier' THEN barriers.waiting_rows END
            FROM barriers WHERE barriers.graph = pipelines.name
            ORDER BY barriers.id DESC LIMIT 1
        ),
        0
    ) AS waiting_rows
FROM pipelines WHERE pipelines.name = %(pipeline)s

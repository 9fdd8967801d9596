-- By the stream run, between barriers: what could make the next one due.
SELECT coalesce(pipelines.set_interval_ms, pipelines.interval_ms) AS interval_ms,
    coalesce(pipelines.set_checkpoint_frequency, pipelines.checkpoint_frequency)
        AS checkpoint_frequency,
    pipelines.paused,
    pipelines.granted_until > clock_timestamp() AS granted,
    ARRAY(
        SELECT id FROM commands
        WHERE pipeline = %(pipeline)s AND done_epoch IS NULL AND kind = 'flush' ORDER BY id
    ) AS flushes,
    ARRAY(
        SELECT id FROM commands
        WHERE pipeline = %(pipeline)s AND done_epoch IS NULL AND kind <> 'flush' ORDER BY id
    ) AS controls,
    -- What lives and is not bound, or is bound and lives no more.
    EXISTS (
        SELECT FROM relations
        WHERE pipeline = %(pipeline)s
            AND (bound_term IS NOT DISTINCT FROM %(term)s) = (role = 'old')
    ) OR EXISTS (
        SELECT FROM sources
        WHERE pipeline = %(pipeline)s AND identity IS NOT NULL
            AND (bound_term IS NOT DISTINCT FROM %(term)s) = (dropped_at IS NOT NULL)
    ) AS rebind,
    EXISTS (
        SELECT FROM relations JOIN graphs ON graphs.id = relations.graph
        WHERE relations.pipeline = %(pipeline)s AND relations.state = 'CatchingUp'
            AND relations.role <> 'old'
            AND NOT EXISTS (
                SELECT FROM splits WHERE splits.relation = relations.id AND (
                    splits.watermark_term, splits.watermark
                ) > (graphs.passed_term, graphs.passed)
            )
    ) AS ready,
    EXISTS (
        SELECT FROM repairs
            JOIN relations ON relations.id = repairs.relation AND relations.bound_term = %(term)s
            JOIN graphs ON graphs.id = repairs.graph AND graphs.term = repairs.term
        WHERE relations.pipeline = %(pipeline)s AND relations.state <> 'Stopped'
            AND repairs.taken_epoch IS NULL
    ) AS repairs,
    EXISTS (
        SELECT FROM commands
        WHERE pipeline = %(pipeline)s AND done_epoch IS NULL AND kind = 'stop'
    ) AS stop,
    ARRAY(
        -- Its label: what its graph is called after its pipeline.
        SELECT substr(views.graph, length(views.pipeline) + 2) FROM relations AS views
            JOIN relations AS upstream ON upstream.id = views.upstream
        WHERE views.pipeline = %(pipeline)s AND views.kind = 'view'
            AND views.state = 'Finishing' AND views.role <> 'old' AND upstream.live_since IS NOT NULL
            AND (upstream.kind = 'table' OR upstream.in_step)
        ORDER BY views.id
    ) AS rejoining
FROM pipelines WHERE name = %(pipeline)s

-- By whoever asks if a pipeline is being driven: barriers granted now, somebody waiting for one.
SELECT pipelines.granted_until > clock_timestamp() AS granted,
    EXISTS (
        SELECT FROM commands
        WHERE commands.pipeline = %(pipeline)s AND commands.done_epoch IS NULL
            -- A flush waits for the end of a pause.
            AND (commands.kind <> 'flush' OR NOT pipelines.paused)
    ) AS has_commands
FROM pipelines WHERE name = %(pipeline)s

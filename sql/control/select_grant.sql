-- By whoever asks if a pipeline is being driven: barriers granted now, somebody waiting for one.
SELECT pipelines.granted_until > clock_timestamp() AS granted,
    EXISTS (
        SELECT FROM commands WHERE pipeline = %(pipeline)s AND done_epoch IS NULL
    ) AS has_commands
FROM pipelines WHERE name = %(pipeline)s

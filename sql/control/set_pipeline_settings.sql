-- When a user sets a pipeline's barrier interval and checkpoint frequency; NULL is the deployment's.
UPDATE pipelines SET
    set_interval_ms = CASE WHEN %(has_interval)s THEN %(interval_ms)s ELSE set_interval_ms END,
    set_checkpoint_frequency = CASE
        WHEN %(has_frequency)s THEN %(checkpoint_frequency)s ELSE set_checkpoint_frequency
    END
WHERE name = %(pipeline)s

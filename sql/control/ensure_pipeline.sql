-- When a definition is applied.
INSERT INTO pipelines (name, interval_ms) VALUES (%(pipeline)s, %(interval_ms)s)
ON CONFLICT (name) DO UPDATE SET interval_ms = excluded.interval_ms

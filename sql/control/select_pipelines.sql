-- When a name is looked up in all that was applied.
SELECT name FROM pipelines ORDER BY name

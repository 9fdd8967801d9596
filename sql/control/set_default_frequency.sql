-- When a definition is applied: the deployment's own setting.
UPDATE pipelines SET checkpoint_frequency = %(checkpoint_frequency)s
WHERE name = %(pipeline)s AND checkpoint_frequency <> %(checkpoint_frequency)s

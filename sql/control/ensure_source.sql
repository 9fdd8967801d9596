-- When a definition is applied.
INSERT INTO sources (pipeline, name, definition, slot, publication)
VALUES (%(pipeline)s, %(name)s, %(definition)s, %(slot)s, %(publication)s)
ON CONFLICT (pipeline, name) DO NOTHING

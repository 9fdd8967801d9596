-- When a definition is applied that says differently how a source is reached.
UPDATE sources SET definition = %(definition)s WHERE pipeline = %(pipeline)s AND name = %(name)s

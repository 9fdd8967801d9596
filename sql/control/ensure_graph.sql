-- When a definition is applied: a graph starts uncommitted, in term 0.
INSERT INTO graphs (id, pipeline, kind) VALUES (%(graph)s, %(pipeline)s, %(kind)s)
ON CONFLICT (id) DO NOTHING

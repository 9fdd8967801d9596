-- When a definition is applied.
INSERT INTO relations
    (pipeline, name, kind, definition, schema, origin, vnode_count, path, graph, upstream, state)
VALUES (
    %(pipeline)s, %(name)s, %(kind)s, %(definition)s, %(schema)s, %(origin)s, %(vnode_count)s, %(path)s,
    %(graph)s, %(upstream)s, %(state)s
)
ON CONFLICT (pipeline, name, version) DO NOTHING

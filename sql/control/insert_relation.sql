-- When a definition is applied.
INSERT INTO relations (
    pipeline, name, version, role, build, kind, definition, schema, origin, vnode_count, path, graph,
    upstream, state
)
VALUES (
    %(pipeline)s, %(name)s, %(version)s, %(role)s, %(build)s, %(kind)s, %(definition)s, %(schema)s,
    %(origin)s, %(vnode_count)s, %(path)s, %(graph)s, %(upstream)s, %(state)s
)
RETURNING id

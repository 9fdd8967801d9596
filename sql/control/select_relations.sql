-- Whenever somebody needs to know what a pipeline holds: what each name means, and what is being
-- built beside it. What is read was made before its readers.
SELECT id, pipeline, name, version, role, build, kind, definition, schema, origin, vnode_count, path,
    graph, upstream, state, why, live_since, snapshot_epoch, in_step
FROM relations WHERE pipeline = %(pipeline)s AND role <> 'old' ORDER BY id

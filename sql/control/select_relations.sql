-- Whenever somebody needs to know what a pipeline holds.
SELECT id, pipeline, name, kind, definition, schema, origin, vnode_count, path, graph, upstream, state, why,
    live_since, snapshot_epoch, in_step, schema_version
FROM relations WHERE pipeline = %(pipeline)s ORDER BY id

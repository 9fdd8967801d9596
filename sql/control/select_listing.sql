-- When a relation is read: everything listed now, as of one instant.
SELECT relations.log_start,
    coalesce(
        (
            SELECT json_agg(
                json_build_object(
                    'id', files.id, 'kind', files.kind, 'after', files.after_epoch,
                    'epoch', files.epoch, 'path', files.path, 'rows', files.rows,
                    'bytes', files.bytes, 'unknown_rows', files.unknown_rows,
                    'key_ranges', files.key_ranges
                ) ORDER BY files.epoch, files.id
            )
            FROM files WHERE files.relation = relations.id AND files.unlisted_at IS NULL
        ), '[]'
    ) AS files,
    coalesce(
        (
            SELECT json_agg(
                json_build_object('epoch', bases.epoch, 'path', bases.path, 'version', bases.version)
                ORDER BY bases.epoch DESC
            )
            FROM bases WHERE bases.relation = relations.id AND bases.forgotten_at IS NULL
        ), '[]'
    ) AS bases
FROM relations WHERE relations.id = %(relation)s

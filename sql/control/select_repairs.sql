-- At each checkpoint, by the source actor: tables whose olds are looked up, and repairs to take in.
SELECT relations.id AS relation, relations.looks_up_old,
    coalesce(
        (
            SELECT json_agg(
                json_build_object(
                    'id', repairs.id, 'path', repairs.path, 'since', repairs.since,
                    'rows', repairs.rows
                ) ORDER BY repairs.id
            )
            FROM repairs JOIN graphs ON graphs.id = repairs.graph AND graphs.term = repairs.term
            WHERE repairs.relation = relations.id AND repairs.taken_epoch IS NULL
        ), '[]'
    ) AS repairs
FROM relations
WHERE relations.pipeline = %(pipeline)s AND relations.kind = 'table'
    AND (
        relations.looks_up_old
        OR EXISTS (
            SELECT FROM repairs WHERE repairs.relation = relations.id AND repairs.taken_epoch IS NULL
        )
    )

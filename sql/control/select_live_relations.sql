-- By a fold: relations whose contents are whole, with the epoch they have reached; the states of a
-- view share its graph.
SELECT relations.id, graphs.committed AS own_epoch, relations.in_step, relations.state
FROM relations JOIN graphs ON graphs.id = relations.graph
WHERE relations.pipeline = %(pipeline)s AND relations.role <> 'old'
    AND (
        relations.kind = 'table' AND relations.state = 'Live'
        OR EXISTS (
            SELECT FROM relations AS views WHERE views.graph = relations.graph AND views.in_step
        )
    )
ORDER BY relations.id

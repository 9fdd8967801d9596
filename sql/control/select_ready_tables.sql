-- In the main graph's commit: tables whose every split is read and passed by the stream.
SELECT relations.id, relations.name, graphs.id AS graph, graphs.term, graphs.generation
FROM relations JOIN graphs ON graphs.id = relations.graph
WHERE relations.pipeline = %(pipeline)s AND relations.kind = 'table'
    AND relations.role <> 'old'
    AND relations.state IN ('Backfilling', 'CatchingUp')
    AND EXISTS (SELECT FROM splits WHERE splits.relation = relations.id)
    AND NOT EXISTS (
        SELECT FROM splits WHERE splits.relation = relations.id
            AND (
                NOT splits.finished
                OR (splits.watermark_term, splits.watermark) > (graphs.passed_term, graphs.passed)
            )
    )
FOR UPDATE OF graphs, relations

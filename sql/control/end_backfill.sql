-- In the main graph's commit of a TRUNCATE, with the graph locked: a backfill under way is over, and
-- pages in flight are of an older generation.
UPDATE graphs SET generation = graphs.generation + 1 FROM relations
WHERE graphs.id = %(graph)s AND relations.id = %(relation)s
    AND relations.state IN ('Backfilling', 'CatchingUp')
RETURNING graphs.generation

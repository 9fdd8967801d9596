-- By the stream run, now and then: the trace keeps the newest of a graph.
DELETE FROM barriers WHERE graph = %(graph)s AND id < (
    SELECT id FROM barriers WHERE graph = %(graph)s ORDER BY id DESC OFFSET %(keep)s - 1 LIMIT 1
)

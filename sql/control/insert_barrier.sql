-- Before a barrier is handed to the actors.
INSERT INTO barriers (graph, prev, curr, term, kind, mutation, waiting_rows)
VALUES (
    %(graph)s, %(prev)s, %(curr)s, %(term)s, %(kind)s, %(mutation)s, %(waiting_rows)s
)

-- Before a barrier is handed to the actors.
INSERT INTO barriers (graph, prev, curr, term, kind)
VALUES (%(graph)s, %(prev)s, %(curr)s, %(term)s, %(kind)s)

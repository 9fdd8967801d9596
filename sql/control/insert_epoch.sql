-- In the commit of an epoch.
INSERT INTO epochs (graph, epoch, prev, term, rows, offsets)
VALUES (%(graph)s, %(epoch)s, %(prev)s, %(term)s, %(rows)s, %(offsets)s)

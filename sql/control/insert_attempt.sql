-- Before the first write of an attempt; the directory is its own.
INSERT INTO attempts (graph, term, directory)
SELECT id, %(term)s, %(directory)s FROM graphs WHERE id = %(graph)s AND term = %(term)s
RETURNING id

-- When differences are staged, with the pin they need: from here on the main graph takes them in.
INSERT INTO repairs (relation, graph, term, attempt, path, since, rows)
VALUES (%(relation)s, %(graph)s, %(term)s, %(attempt)s, %(path)s, %(since)s, %(rows)s)

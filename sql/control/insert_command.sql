-- When a user asks for something that a barrier must carry.
INSERT INTO commands (pipeline, kind) VALUES (%(pipeline)s, %(kind)s) RETURNING id

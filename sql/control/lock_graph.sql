-- In a commit that depends on another graph standing still, and after a lost COMMIT.
SELECT id, committed, term, generation, passed FROM graphs WHERE id = %(graph)s FOR UPDATE

-- In the main graph's commit, after a repair was taken: its owner's pin, if no other needs it.
DELETE FROM pins USING repairs
WHERE repairs.id = %(repair)s AND pins.relation = repairs.relation AND pins.owner = repairs.graph
    AND NOT EXISTS (
        SELECT FROM repairs AS others
        WHERE others.relation = repairs.relation AND others.graph = repairs.graph
            AND others.term = repairs.term AND others.taken_epoch IS NULL
    )

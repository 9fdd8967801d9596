-- With relations that end: whoever fills them may commit no more. Views that the main graph moves
-- are left to it until it has let go of them.
UPDATE graphs SET term = term + 1, owner = NULL, lease_until = NULL
WHERE id IN (
    SELECT relations.graph FROM relations
    WHERE relations.id = ANY(%(relations)s) AND relations.kind <> 'state'
        AND NOT relations.in_step AND relations.state <> 'Finishing'
)

-- First statement of whatever changes which files or pins a relation has.
SELECT id, state, snapshot_epoch, in_step, live_since FROM relations
WHERE id = %(relation)s FOR UPDATE

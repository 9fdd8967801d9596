-- First statement of whatever changes which files or pins a relation has. It does not wait for those
-- who list new files, whose foreign keys hold the row, too.
SELECT id, role, state, why, snapshot_epoch, in_step, live_since FROM relations
WHERE id = %(relation)s FOR NO KEY UPDATE

-- Before a source's publication and slot are made: which of them were there already. What was
-- noted once stays, also when the stream is begun anew.
UPDATE sources
SET made_publication = coalesce(made_publication, %(publication)s),
    made_slot = coalesce(made_slot, %(slot)s)
WHERE pipeline = %(pipeline)s AND name = %(name)s

-- Before a source's publication and slot are made: which of them were there already.
UPDATE sources SET made_publication = %(publication)s, made_slot = %(slot)s
WHERE pipeline = %(pipeline)s AND name = %(name)s AND made_slot IS NULL

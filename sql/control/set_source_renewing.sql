-- Before a lost slot is made anew: until its beginning is stored no stream of the source may start.
UPDATE sources SET renewing = %(why)s WHERE pipeline = %(pipeline)s AND name = %(name)s

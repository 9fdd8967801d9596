-- In the commit of an epoch: everything up to here is in it or before it.
UPDATE sources SET "offset" = %(offset)s WHERE pipeline = %(pipeline)s AND name = %(name)s

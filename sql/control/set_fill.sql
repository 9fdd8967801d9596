-- In the commit of a log that holds rows read again: the stream must pass this before it goes live.
UPDATE relations SET fill_lsn = %(lsn)s WHERE id = %(relation)s

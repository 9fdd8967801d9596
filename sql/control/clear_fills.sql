-- In the main graph's commit: what was read again up to here the stream has passed.
UPDATE relations SET fill_lsn = NULL WHERE id = ANY(%(relations)s) AND fill_lsn <= %(lsn)s

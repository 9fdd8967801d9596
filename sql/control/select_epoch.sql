-- After a lost COMMIT: did it happen?
SELECT epoch, term FROM epochs WHERE graph = %(graph)s AND epoch = %(epoch)s

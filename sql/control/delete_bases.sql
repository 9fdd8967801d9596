-- With the files a fold drops from the list: older bases have lost the log that follows them.
DELETE FROM bases WHERE relation = %(relation)s AND epoch < %(before)s

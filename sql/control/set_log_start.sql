-- With the files a fold drops from the list: from here on older bases stand alone.
UPDATE relations SET log_start = %(epoch)s WHERE id = %(relation)s AND log_start < %(epoch)s

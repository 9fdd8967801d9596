-- By whoever staged repairs: which are taken in, and how many of their rows were still wrong.
SELECT id, taken_epoch, taken_rows FROM repairs
WHERE relation = %(relation)s AND graph = %(graph)s AND term = %(term)s

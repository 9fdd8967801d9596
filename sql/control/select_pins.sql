-- Under the relation's row lock, before files are replaced.
SELECT owner, epoch FROM pins WHERE relation = %(relation)s ORDER BY epoch

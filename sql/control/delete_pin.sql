-- When the owner no longer needs the epoch.
DELETE FROM pins WHERE relation = %(relation)s AND owner = %(owner)s

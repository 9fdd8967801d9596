-- When a relation is read or folded: its Delta versions, newest first.
SELECT epoch, path, version FROM bases WHERE relation = %(relation)s ORDER BY epoch DESC

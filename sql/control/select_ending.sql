-- When a pipeline is looked at: what was dropped or replaced and is not taken down yet.
SELECT name, version FROM relations
WHERE pipeline = %(pipeline)s AND role = 'old' AND state = 'Dropping' AND kind <> 'state' ORDER BY id

-- Run when a pipeline is dropped.
SELECT pg_drop_replication_slot(s.slot_name)
FROM pg_replication_slots AS s
WHERE s.slot_name = %(slot)s;

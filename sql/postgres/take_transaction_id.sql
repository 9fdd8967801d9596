-- Run, in a transaction of its own, to mark the moment before which writers are awaited.
SELECT pg_current_xact_id()::text::int8 AS xid;

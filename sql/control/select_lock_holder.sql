-- While somebody waits for a lock of the store: who has it.
SELECT pg_stat_activity.pid, pg_stat_activity.application_name,
    coalesce(host(pg_stat_activity.client_addr), 'this host') AS host
FROM pg_locks JOIN pg_stat_activity ON pg_stat_activity.pid = pg_locks.pid
WHERE pg_locks.locktype = 'advisory' AND pg_locks.granted AND pg_locks.objsubid = 1
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND ((pg_locks.classid::bigint << 32) | pg_locks.objid::bigint) = hashtextextended(%(name)s, 0)

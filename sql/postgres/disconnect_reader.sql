-- When a stream starts whose slot is still read by a process whose term is over and that hangs.
SELECT pg_terminate_backend(r.pid) AS ended
FROM pg_stat_replication AS r
WHERE r.pid = %(pid)s
    AND r.reply_time < clock_timestamp() - make_interval(secs => %(seconds)s);

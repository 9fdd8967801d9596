-- Under the relations' row locks: what is listed from here on stays for a while.
INSERT INTO pins (relation, owner, epoch, expires_at)
SELECT DISTINCT relation, %(owner)s, %(epoch)s::bigint,
    clock_timestamp() + make_interval(secs => %(seconds)s)
FROM unnest(%(relations)s::bigint[]) AS held (relation)
ON CONFLICT (relation, owner) DO UPDATE
SET epoch = excluded.epoch, expires_at = excluded.expires_at, taken_at = clock_timestamp()

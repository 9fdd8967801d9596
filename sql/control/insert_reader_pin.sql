-- Under the relation's row lock: a reader holds this epoch for a while.
INSERT INTO pins (relation, owner, epoch, expires_at)
VALUES (
    %(relation)s, %(owner)s, %(epoch)s,
    clock_timestamp() + make_interval(secs => %(seconds)s)
)

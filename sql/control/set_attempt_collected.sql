-- The collector's last step, when the directory was found empty long after the term's end.
UPDATE attempts SET state = 'collected' WHERE id = %(attempt)s AND state = 'retired'
    AND created_at < clock_timestamp() - make_interval(secs => %(grace_seconds)s)

-- Under the relation's row lock: this epoch and all log after it stay.
INSERT INTO pins (relation, owner, epoch) VALUES (%(relation)s, %(owner)s, %(epoch)s)
ON CONFLICT (relation, owner)
DO UPDATE SET epoch = excluded.epoch, expires_at = NULL, taken_at = clock_timestamp()

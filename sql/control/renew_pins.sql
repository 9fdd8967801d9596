-- By a reader that goes on; a pin that has run out is not brought back.
UPDATE pins SET expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE owner = %(owner)s AND expires_at > clock_timestamp()

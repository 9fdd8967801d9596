-- When a fold is recorded: bases nobody can ask for any more; who has asked already still reads.
UPDATE bases SET forgotten_at = clock_timestamp()
WHERE relation = %(relation)s AND epoch = ANY(%(epochs)s) AND forgotten_at IS NULL

-- When a table under backfill v1 is read in part: its newest commit that the stream has passed.
SELECT epochs.epoch, epochs.offsets
FROM graphs JOIN epochs ON epochs.graph = graphs.id
WHERE graphs.id = %(graph)s
    AND (epochs.term, epochs.epoch) <= (graphs.passed_term, graphs.passed)
    AND (epochs.offsets ->> 'generation')::bigint = graphs.generation
    AND epochs.offsets ? 'backfill_state'
ORDER BY epochs.epoch DESC LIMIT 1

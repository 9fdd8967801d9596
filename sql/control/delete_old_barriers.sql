-- With every hundredth commit: barriers are a trace, not a store.
DELETE FROM barriers WHERE graph = %(graph)s AND injected_at < clock_timestamp() - interval '1 hour'

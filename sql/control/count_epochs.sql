-- By the demo's summary.
SELECT count(*) AS epochs FROM epochs WHERE graph = %(graph)s

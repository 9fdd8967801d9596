-- In the main graph's commit: builds whose every table is live and every view in step.
SELECT build FROM relations
WHERE pipeline = %(pipeline)s AND role = 'next' AND kind <> 'state'
GROUP BY build HAVING bool_and(kind = 'table' AND state = 'Live' OR kind = 'view' AND in_step)
ORDER BY build

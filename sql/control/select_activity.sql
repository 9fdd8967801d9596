-- By a stream run that lingers: how long ago a change was committed, and whether somebody fills.
SELECT
    (
        SELECT extract(epoch FROM clock_timestamp() - epochs.committed_at)::float
        FROM epochs WHERE epochs.graph = %(pipeline)s AND epochs.rows > 0
        ORDER BY epochs.epoch DESC LIMIT 1
    ) AS seconds_since_change,
    EXISTS (
        SELECT FROM graphs
        WHERE graphs.pipeline = %(pipeline)s AND graphs.kind = 'backfill'
            AND graphs.lease_until > clock_timestamp()
    ) OR EXISTS (
        SELECT FROM relations
        WHERE relations.pipeline = %(pipeline)s AND relations.role <> 'old'
            AND (relations.kind = 'table' AND relations.state = 'CatchingUp'
                OR relations.kind = 'view' AND relations.state = 'Finishing')
    ) AS is_filling

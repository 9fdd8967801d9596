-- Before a table or view is read as of an epoch: what it, or a table it comes from, lacks there.
WITH RECURSIVE origins AS (
    SELECT id, upstream FROM relations WHERE id = %(relation)s
    UNION
    SELECT relations.id, relations.upstream
    FROM relations JOIN origins ON relations.id = origins.upstream
)
SELECT gaps.after_epoch, gaps.upto_epoch, gaps.why
FROM gaps JOIN origins ON origins.id = gaps.relation
WHERE gaps.after_epoch < %(epoch)s AND (gaps.upto_epoch IS NULL OR gaps.upto_epoch > %(epoch)s)
ORDER BY gaps.after_epoch LIMIT 1

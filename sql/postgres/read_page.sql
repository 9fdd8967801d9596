-- Run by one task per page, as COPY in binary. The key is qualified: an output column may be called
-- the same and be its text.
SELECT {columns} FROM {rows} AS page WHERE {where} ORDER BY {key} LIMIT {limit};

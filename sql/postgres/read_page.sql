-- Run by one task per page, as COPY in binary.
SELECT {columns} FROM ONLY {table} WHERE {where} ORDER BY {key} LIMIT {limit};

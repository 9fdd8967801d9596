-- Run when a table with a snapshot filter is bound: is it a condition on its columns?
SELECT FROM ONLY {table} WHERE (
{filter}
) LIMIT 0;

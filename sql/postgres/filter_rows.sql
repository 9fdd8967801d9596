-- Within a page's query, where a snapshot filter was given. The planner sees through it.
(SELECT * FROM ONLY {table} WHERE (
{filter}
))

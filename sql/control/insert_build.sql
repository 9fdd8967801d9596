-- When versions are to be built beside the current ones: the number they share.
SELECT nextval('builds') AS build

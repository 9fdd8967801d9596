-- When a user pauses or resumes a pipeline: what is wanted from here on.
UPDATE pipelines SET paused = %(paused)s WHERE name = %(pipeline)s

-- First statement of whatever changes which version a name means.
SELECT name FROM pipelines WHERE name = %(pipeline)s FOR NO KEY UPDATE

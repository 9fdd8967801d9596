-- In the main graph's commit in which a build is whole: what its members replace.
UPDATE relations SET role = 'old', state = 'Dropping', why = 'a new version has replaced it',
    ended_at = clock_timestamp()
WHERE relations.pipeline = %(pipeline)s AND relations.role = 'current' AND relations.name IN (
    SELECT built.name FROM relations AS built
    WHERE built.pipeline = %(pipeline)s AND built.role = 'next' AND built.build = %(build)s
)

-- When changes of a table's source are lost; a gap that is open already began earlier.
INSERT INTO gaps (relation, after_epoch, why) VALUES (%(relation)s, %(after)s, %(why)s)
ON CONFLICT (relation) WHERE upto_epoch IS NULL DO NOTHING

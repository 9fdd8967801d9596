-- When a fold is recorded.
INSERT INTO bases (relation, epoch, path, version, schema_version)
VALUES (%(relation)s, %(epoch)s, %(path)s, %(version)s, %(schema_version)s)

-- When a fold is recorded.
INSERT INTO bases (relation, epoch, path, version)
VALUES (%(relation)s, %(epoch)s, %(path)s, %(version)s)

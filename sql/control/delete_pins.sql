-- When a round of folds begins and ends: all the epochs its owner held.
DELETE FROM pins WHERE owner = %(owner)s

-- In the commit of the epoch that carried the command.
UPDATE commands SET done_epoch = %(epoch)s WHERE id = %(command)s

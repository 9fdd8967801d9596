-- By whoever waits for a command.
SELECT id, done_epoch FROM commands WHERE id = %(command)s

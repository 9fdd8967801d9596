-- Run when a pipeline is dropped, after its slot.
DROP PUBLICATION IF EXISTS {publication};

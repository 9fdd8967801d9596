-- What a reader may have seen stays for as long as its pin, also where its epoch does not need it.
ALTER TABLE bases ADD COLUMN forgotten_at timestamptz;
COMMENT ON COLUMN bases.forgotten_at IS
    'nobody can ask for it from then on; who had asked before may still read its files';

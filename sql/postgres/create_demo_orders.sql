-- By the demo: the shop's table.
CREATE TABLE orders (
    id bigint PRIMARY KEY,
    region text NOT NULL,
    amount numeric(12, 2),
    quantity int NOT NULL,
    paid boolean NOT NULL,
    day date NOT NULL,
    placed_at timestamptz NOT NULL
);

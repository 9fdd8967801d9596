-- The demo's pipeline: orders of a shop in the embedded Postgres, and revenue by region.
CREATE SOURCE shop WITH (
  connector = 'postgres-cdc',
  hostname = SECRET embedded_host,
  port = SECRET embedded_port,
  username = 'postgres',
  password = SECRET embedded_password,
  database.name = 'shop',
  slot.name = 'tidegate_shop'
);

CREATE TABLE orders (*) FROM shop TABLE 'public.orders' WITH (
  backfill.parallelism = '2',
  backfill.num_rows_per_split = '100000',
  snapshot.batch_size = '50000'
);

CREATE MATERIALIZED VIEW revenue AS
  SELECT region, count(*) AS orders, sum(amount) AS amount, sum(quantity) AS quantity
  FROM orders
  GROUP BY region;

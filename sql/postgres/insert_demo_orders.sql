-- By the demo: what the shop has sold before it hears of Tidegate.
INSERT INTO orders
SELECT i, (ARRAY['north', 'south', 'east', 'west', 'online'])[1 + i %% 5],
    CASE WHEN i %% 97 = 0 THEN NULL ELSE (i %% 9973) / 100.0 END, 1 + i %% 9, i %% 3 <> 0,
    date '2026-01-01' + (i %% 300)::int, timestamptz '2026-01-01' + i * interval '7 seconds'
FROM generate_series(1, %(rows)s) AS i;

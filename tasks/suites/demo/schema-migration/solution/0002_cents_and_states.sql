-- Columns are added and dropped in place: with foreign keys on, dropping a table would delete its rows
-- first, and with them every order item. The order numbers live on for the same reason.

ALTER TABLE orders ADD COLUMN total_cents INTEGER NOT NULL DEFAULT 0;
UPDATE orders SET total_cents = CAST(round(total * 100) AS INTEGER);
ALTER TABLE orders DROP COLUMN total;

ALTER TABLE orders ADD COLUMN state TEXT NOT NULL DEFAULT 'open'
    CHECK (state IN ('open', 'paid', 'cancelled'));
UPDATE orders SET state = CASE lower(trim(coalesce(status, '')))
    WHEN '' THEN 'open'
    WHEN 'canceled' THEN 'cancelled'
    ELSE lower(trim(status))
END;
ALTER TABLE orders DROP COLUMN status;
ALTER TABLE orders RENAME COLUMN state TO status;

ALTER TABLE order_items ADD COLUMN price_cents INTEGER NOT NULL DEFAULT 0;
UPDATE order_items SET price_cents = CAST(round(price * 100) AS INTEGER);
ALTER TABLE order_items DROP COLUMN price;

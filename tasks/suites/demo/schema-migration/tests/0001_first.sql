CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE
);

CREATE TABLE orders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    customer_id INTEGER NOT NULL REFERENCES customers(id) ON DELETE RESTRICT,
    total REAL NOT NULL,
    status TEXT,
    note TEXT,
    placed_at TEXT NOT NULL
);

CREATE INDEX orders_by_customer ON orders(customer_id, placed_at);

CREATE TABLE order_items (
    id INTEGER PRIMARY KEY,
    order_id INTEGER NOT NULL REFERENCES orders(id) ON DELETE CASCADE,
    sku TEXT NOT NULL,
    quantity INTEGER NOT NULL,
    price REAL NOT NULL,
    UNIQUE (order_id, sku)
);

CREATE TABLE shipments (
    id INTEGER PRIMARY KEY,
    order_id INTEGER REFERENCES orders(id) ON DELETE SET NULL,
    carrier TEXT NOT NULL
);

CREATE INDEX shipments_by_order ON shipments(order_id);

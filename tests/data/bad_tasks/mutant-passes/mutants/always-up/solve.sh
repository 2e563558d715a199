#!/bin/bash
sed -i 's|int(.*)|-(-cents * (100 - percent) // 100)|' /app/price.py

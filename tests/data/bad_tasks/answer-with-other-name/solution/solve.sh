#!/bin/bash
cp /solution/price.py /app/price.py

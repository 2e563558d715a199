#!/bin/bash
echo 'ROUNDED PRICES' >/app/label.txt

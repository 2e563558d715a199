#!/bin/bash
cd /app
git checkout -q stash@{0} -- price.py

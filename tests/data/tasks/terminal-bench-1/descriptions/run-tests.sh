#!/bin/bash
pytest -rA

"""Reads records of the form `name = value; name = value`."""

from fields.number import number


def parse(line):
    record = {}
    for part in line.split(";"):
        name, _, value = part.partition("=")
        record[name.strip()] = number(value.strip())
    return record

"""Values that are numbers become numbers."""


def number(text):
    try:
        return int(text)
    except ValueError:
        return text

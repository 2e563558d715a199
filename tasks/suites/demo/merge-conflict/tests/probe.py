"""Calls the shop's code in a folder with calls given on standard input; runs in its own process."""

import json
import sys

sys.path.insert(0, sys.argv[1])

import items  # noqa: E402
import pricing  # noqa: E402
import receipt  # noqa: E402

MODULES = {"items": items, "pricing": pricing, "receipt": receipt}
answers = []
for module, function, arguments, keywords in json.load(sys.stdin):
    try:
        answers.append(getattr(MODULES[module], function)(*arguments, **keywords))
    except Exception as error:  # the kind of error is a part of the answer
        answers.append(f"raises {type(error).__name__}")
json.dump(answers, sys.stdout)

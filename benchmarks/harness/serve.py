"""The contender's side of contender.py, for contenders in Python."""

import json
import sys


def serve(contender):
    """Answers each line on standard input, a method of `contender` and its arguments, with one line of JSON."""
    for line in sys.stdin:
        request, *arguments = line.split()
        print(json.dumps(getattr(contender, request)(*arguments)), flush=True)
